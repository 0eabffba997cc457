# Is `codex app-server` for a test: says what the real one was seen to say (codex-app-server.jsonl beside this).
field() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
words() { printf '%s' "$line" | sed -n 's/.*\\n\(.*\)"[]}].*/\1/p' | sed 's/ ‹wb:end›//'; }
note() { printf '%s\n' "$2" >> "$OUT/$1"; }
note started "run $*"
thread='"threadId":"t-1"'
tell() { printf '{"method":"%s","params":{%s,%s}}\n' "$1" "$thread" "$2"; }
item() { tell item/completed "\"turnId\":\"u-$id\",\"item\":{$1}"; }
began() { tell turn/started "\"turn\":{\"id\":\"u-$id\"}"
  item "\"type\":\"userMessage\",\"clientId\":\"$id\""; }
ended() { tell turn/completed "\"turn\":{\"id\":\"u-$id\",\"status\":\"$1\",$2\"items\":[]}"; }
spent() { tell thread/tokenUsage/updated "\"turnId\":\"u-$id\",\"tokenUsage\":{\"last\":{\"inputTokens\":7,\"cachedInputTokens\":2,\"outputTokens\":3}}"; }
say() { item "\"type\":\"agentMessage\",\"text\":\"$1\""; spent; ended completed ''; }
decide() { if [ -e "$OUT/asked" ]; then mv "$OUT/asked" "$OUT/decided"; wb-agent complete --reply '"decided"'; fi; }
question() { wb-agent approval create --channel c --title T --and-exit > "$OUT/asked.part"; mv "$OUT/asked.part" "$OUT/asked"; }
while read -r line; do case $line in
  *'"initialize"'*) echo '{"id":"wb-init","result":{}}' ;;
  *'"thread/start"'*) note greeted "$(field developerInstructions)"
    echo '{"id":"wb-start","result":{"thread":{"id":"t-1"}}}' ;;
  *'"thread/resume"'*) note resumed "$(field threadId)"
    if [ -e "$OUT/forgotten" ]; then echo '{"id":"wb-resume","error":{"code":-32600,"message":"no rollout found"}}'
    else echo '{"id":"wb-resume","result":{"thread":{"id":"t-1"}}}'; fi ;;
  *'"thread/turns/list"'*) if [ -e "$OUT/last" ]; then
      printf '{"id":"wb-turns","result":{"data":[{"status":"interrupted","items":[{"type":"userMessage","clientId":"%s"}]}]}}\n' "$(cat "$OUT/last")"
    elif [ -e "$OUT/forgotten" ]; then echo '{"id":"wb-turns","error":{"code":-32600,"message":"thread not loaded"}}'
    else echo '{"id":"wb-turns","result":{"data":[]}}'; fi ;;
  *'"turn/start"'*) id=$(field clientUserMessageId); text=$(words); note given "$text"
    case $text in
      refuse) printf '{"id":"%s","error":{"code":-32600,"message":"no such model"}}\n' "$id" ;;
      taken) if [ ! -e "$OUT/last" ]; then printf '%s' "$id" > "$OUT/last"; exit 3; fi ;;
      lost) if [ ! -e "$OUT/fell" ]; then : > "$OUT/fell"; exit 3; fi; began; say "again $text" ;;
      wait) began ;;
      hold) began; until [ -e "$OUT/go" ]; do sleep 0.05; done; say held ;;
      spend) began; spent; note spent "$text" ;;
      ask) began; echo '{"method":"item/commandExecution/requestApproval","id":7,"params":{}}' ;;
      fail) began; ended failed '"error":{"message":"the provider refuses"},' ;;
      question) began; question; say asked ;;
      complete) began; wb-agent complete --reply '"done"'; say 'done' ;;
      *) began; decide; say "again $text" ;;
    esac ;;
  *'"turn/interrupt"'*) note interrupted "$(field turnId)"; ended interrupted '' ;;
  *'"id":7'*) note refused "$line"; say declined ;;
esac; done
