# Is `pi --mode rpc` for a test: says what the real one was seen to say (pi-rpc.jsonl beside this).
field() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
words() { printf '%s' "$line" | sed -n 's/.*\\n\(.*\)"[]}].*/\1/p' | sed 's/ ‹wb:end›//'; }
note() { printf '%s\n' "$2" >> "$OUT/$1"; }
note started "run $*"
message() { printf '{"type":"%s","message":{"role":"%s","content":[{"type":"text","text":"%s"}]%s}}\n' "$@"; }
usage=',"usage":{"input":7,"output":3,"cacheRead":0,"cacheWrite":4,"cost":{"total":0.5}}'
began() { echo '{"type":"agent_start"}'; message message_start user "‹wb:$id› $text ‹wb:end›" ''; }
ended() { echo '{"type":"agent_end","messages":[]}'; }
say() { message message_end assistant "$1" "$usage,\"stopReason\":\"stop\""; ended; }
fail() { message message_end assistant '' "$usage,\"stopReason\":\"error\",\"errorMessage\":\"overloaded\""; ended; }
response() { printf '{"id":"%s","type":"response","command":"%s","success":%s}\n' "$@"; }
decide() { if [ -e "$OUT/asked" ]; then mv "$OUT/asked" "$OUT/decided"; wb-agent complete --reply '"decided"'; fi; }
question() { wb-agent approval create --channel c --title T --and-exit > "$OUT/asked.part"; mv "$OUT/asked.part" "$OUT/asked"; }
while read -r line; do case $line in
  *'"type":"get_state"'*) count=2; if [ -e "$OUT/forgotten" ]; then count=0; fi
    printf '{"id":"%s","type":"response","command":"get_state","success":true,"data":{"sessionFile":"%s","isStreaming":false,"messageCount":%s}}\n' "$(field id)" "$OUT/session" "$count" ;;
  *'"type":"abort"'*) message message_end assistant '' "$usage,\"stopReason\":\"aborted\""; ended
    response wb-abort abort true ;;
  *'"type":"prompt"'*) id=$(field id); text=$(words); note given "$text"
    if [ "$text" = busy ] && [ ! -e "$OUT/went" ]; then : > "$OUT/went"
      # Work of its own, of which its client knows nothing yet.
      echo '{"type":"agent_start"}'; message message_start user 'a timer' ''
      response "$id" prompt 'false,"error":"Agent is already processing."'; say 'done'; continue; fi
    response "$id" prompt true; began
    case $text in
      wait) ;;
      hold) until [ -e "$OUT/go" ]; do sleep 0.05; done; say held ;;
      spend) message message_end assistant '' "$usage,\"stopReason\":\"toolUse\""; note spent "$text" ;;
      fail) fail ;;
      again) fail; echo '{"type":"auto_retry_start"}'; echo '{"type":"agent_start"}'
        say "again $text" ;;
      lost) exit 3 ;;
      question) question; say asked ;;
      complete) wb-agent complete --reply '"done"'; say 'done' ;;
      *) decide; say "again $text" ;;
    esac ;;
esac; done
