// Jobs in a browser: a log that follows, output that attacks, a hundred thousand lines, cancelling,
// a killed server, and what a waiting job waits for.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { grouped, span } from "../../src/http/assets/base/span.js";
import { DESKTOP, PHONE, findings, isLive, layoutShift, serve, until, visitor } from "./harness.mjs";

const FREE = 'lane = "topic_id"';

/** Makes a site with kinds `{name: shell}` that work on a Topic, and starts a job of each in order. */
async function jobsOf(t, kinds, fields = FREE, options = {}) {
  const site = await serve(t, options, (it) => {
    for (const [name, shell] of Object.entries(kinds)) it.topicKind(name, shell, fields);
  });
  const ids = [];
  for (const kind of Object.keys(kinds)) {
    const topic_id = await site.topic("guide.md", "The first line", `For ${kind}`);
    ids.push(await site.job(kind, { topic_id }));
  }
  return [site, ...ids];
}

const rows = (page) => page.getByRole("log").locator(".tail-part > div");
const isAtEnd = (page) => page.evaluate(() => {
  const tail = document.querySelector(".tail");
  return tail.scrollHeight - tail.scrollTop - tail.clientHeight < 4;
});

const numbers = (page) => page.evaluate(() => [...document.querySelectorAll(".tail-part > div")]
  .map((it) => Number(/^line (\d+)/.exec(it.textContent)?.[1])).filter(Boolean));
const isGapless = (list) => list.every((it, place) => place === 0 || it === list[place - 1] + 1);

test("durations and sizes are said as the server says them", () => {
  const said = [[0, "less than 0.1 s"], [430, "0.4 s"], [12_900, "12 s"], [60_000, "1 min"],
    [200_000, "3 min 20 s"], [7_500_000, "2 h 5 min"]];
  for (const [ms, words] of said) assert.equal(span(ms), words);
  for (const [number, words] of [[0, "0"], [999, "999"], [1_234_567, "1,234,567"]]) {
    assert.equal(grouped(number), words);
  }
});

test("a log follows, stops when somebody scrolls up, and goes on at the end", async (t) => {
  const [site, job] = await jobsOf(t, {
    talk: `say() { i=0; while [ $i -lt 60 ]; do echo "$1 $i" >&2; i=$((i+1)); done; }
      say first; while [ ! -e "$OUT/more" ]; do sleep 0.05; done
      say second; while [ ! -e "$OUT/end" ]; do sleep 0.05; done; printf 'the last word' >&2`,
  });
  const ada = await visitor(t, site);
  const page = await ada.openLive(`/jobs/${job}`);
  await rows(page).getByText("first 59", { exact: true }).waitFor();
  await until("it is at its end", () => isAtEnd(page));
  const before = await page.locator(".job-head .tick").first().textContent();
  await until("the clock goes on", async () =>
    (await page.locator(".job-head .tick").first().textContent()) !== before);
  // Somebody reads above: nothing moves under them.
  await page.locator(".tail").hover();
  await page.mouse.wheel(0, -600);
  await page.getByText("Paused").waitFor();
  const top = await page.evaluate(() => document.querySelector(".tail").scrollTop);
  fs.writeFileSync(path.join(site.out, "more"), "");
  await until("more was printed", async () =>
    /[1-9]\d* more bytes|Paused/.test(await page.locator(".log-status").textContent()));
  assert.equal(await page.evaluate(() => document.querySelector(".tail").scrollTop), top);
  await page.getByRole("button", { name: "Go to end" }).click();
  await rows(page).getByText("second 59", { exact: true }).waitFor();
  await until("it is at its end", () => isAtEnd(page));
  fs.writeFileSync(path.join(site.out, "end"), "");
  await page.locator(".job-head .state", { hasText: "Done" }).waitFor();
  await page.getByText("the last word").waitFor();
  await page.getByText(/^[0-9,]+ bytes$/).or(page.getByText("Part of")).waitFor();
  assert.ok(await layoutShift(page) < 0.02, `${await layoutShift(page)}`);
});

test("what output holds is text: colors are classes, and nothing is obeyed", async (t) => {
  const attack = String.raw`printf '\033[31mred\033[0m\033]0;title\007\033]8;;javascript:alert(1)\033\\link\033]8;;\033\\\n' >&2
printf '<img src=x onerror=alert(1)><script>alert(2)</script>\n\033[8mhidden\033[0m\n' >&2
printf '\033]52;c;aGk=\n\033[2J\033[?1049hafter\n\342\200\256backwards\n' >&2; sleep 60`;
  const [site, job] = await jobsOf(t, { attack });
  const ada = await visitor(t, site);
  const page = await ada.openLive(`/jobs/${job}`);
  for (const way of ["as the server wrote it", "as the script wrote it"]) {
    await rows(page).getByText("backwards").waitFor();
    const written = await page.locator(".tail-part").first().elementHandle();
    const seen = await page.evaluate(() => ({
      text: document.querySelector(".tail").textContent,
      color: document.querySelector(".tail .t-ink1")?.textContent,
      elements: [...new Set([...document.querySelectorAll(".tail *")].map((it) => it.localName))].sort(),
      title: document.title,
    }));
    assert.equal(seen.color, "red", way);
    assert.deepEqual(seen.elements, ["bdi", "div", "span"], way);
    for (const part of ["link", "<script>alert(2)</script>", "hidden", "after"]) {
      assert.ok(seen.text.includes(part), `${part}: ${way}`);
    }
    assert.ok(!seen.text.includes("javascript") && !seen.text.includes("\u001b"), way);
    assert.ok(!seen.title.includes("title\u0007"), way);
    await page.getByRole("button", { name: "Go to start" }).click();
    await page.waitForFunction((it) => !it.isConnected, written);
  }
});

test("a hundred thousand lines and a line without end do not freeze the page", async (t) => {
  const [site, lines, line] = await jobsOf(t, {
    lines: "seq -f 'line %.0f of a long log that has some more words in each of its lines' 100000 >&2",
    line: "head -c 52428800 /dev/zero | tr '\\0' x >&2",
  });
  await site.status(lines);
  await site.status(line);
  const ada = await visitor(t, site);
  for (const job of [lines, line]) {
    const page = await ada.openLive(`/jobs/${job}`);
    await page.evaluate(() => {
      window.longest = 0;
      new PerformanceObserver((list) => {
        for (const it of list.getEntries()) window.longest = Math.max(window.longest, it.duration);
      }).observe({ type: "longtask" });
    });
    await page.getByRole("button", { name: "Go to start" }).click();
    await page.waitForFunction(() => document.querySelector(".tail").scrollTop === 0);
    // Down through a good part of it, as fast as a wheel turns, and up again to its first line.
    await page.locator(".tail").hover();
    const turn = async (by, isThere) => {
      for (const end = Date.now() + 20_000; Date.now() < end;) {
        await page.mouse.wheel(0, by);
        await page.evaluate(() => new Promise(requestAnimationFrame));
        if (await isThere()) return;
      }
    };
    if (job === lines) {
      await turn(20_000, async () => (await numbers(page)).at(-1) > 6_000);
      await until("the first lines are put away", async () => (await numbers(page))[0] > 1);
      const low = await numbers(page);
      assert.ok(low.at(-1) > 6_000 && isGapless(low), `${low[0]} to ${low.at(-1)}`);
      await turn(-20_000, async () => (await numbers(page))[0] === 1);
      const high = await numbers(page);
      assert.ok(high[0] === 1 && isGapless(high), `${high[0]} to ${high.at(-1)}`);
    } else {
      await turn(20_000, async () => (await rows(page).count()) > 500);
    }
    await page.getByRole("button", { name: "Go to end" }).click();
    await until("it is at its end", () => isAtEnd(page));
    if (job === lines) await rows(page).getByText("line 100000 of").waitFor();
    const { longest, count } = await page.evaluate(() =>
      ({ longest: window.longest, count: document.querySelectorAll(".tail div").length }));
    t.diagnostic(`longest task ${longest} ms, ${count} rows`);
    assert.ok(count < 5_000, `${count} rows`);
    assert.ok(longest < 3_000, `${longest} ms`);
    await page.close();
  }
});

test("cancelling ends the agent, in place", async (t) => {
  const [site, job] = await jobsOf(t, { slow: 'echo $$ > "$OUT/pid"; echo working >&2; sleep 600' });
  const ada = await visitor(t, site);
  const page = await ada.openLive(`/jobs/${job}`);
  await rows(page).getByText("working").waitFor();
  const pid = Number(fs.readFileSync(path.join(site.out, "pid"), "utf8"));
  assert.ok(fs.existsSync(`/proc/${pid}`));
  await page.getByRole("button", { name: "Cancel job" }).click();
  await page.locator(".job-head .state", { hasText: "Cancelled" }).waitFor();
  await page.getByRole("button", { name: "Run again" }).waitFor();
  await rows(page).getByText("working").waitFor();
  assert.ok(!fs.existsSync(`/proc/${pid}`), "the agent is alive");
  // And once more, from the board.
  // It may stand where the last press was: a click at once would be the second of a double one.
  await page.getByRole("button", { name: "Run again" }).press("Enter");
  await page.waitForURL((url) => !url.pathname.includes(job));
  await page.goto("/jobs");
  await page.getByRole("button", { name: /^Cancel slow/ }).click();
  await page.locator("#ended .card").nth(1).waitFor();
  assert.equal(new URL(page.url()).pathname, "/jobs");
  assert.equal(await page.locator(".board-page").count(), 1, "the new board stands in the place of the old one");
});

test("a killed server is shown as lost, and its job as ended by the restart", async (t) => {
  const [site, job] = await jobsOf(t, { slow: "echo working >&2; sleep 600" });
  const ada = await visitor(t, site);
  const page = await ada.openLive(`/jobs/${job}`);
  await rows(page).getByText("working").waitFor();
  await site.kill();
  await page.getByText("Connection lost").first().waitFor();
  await site.start();
  await isLive(page);
  await page.getByText("Agent failed: server restarted.").first().waitFor();
  await page.getByRole("button", { name: "Run again" }).waitFor();
});

test("a waiting job names the one in its way, on the board and by itself, and goes on after it", async (t) => {
  const site = await serve(t, {}, (it) => it.topicKind("rewrite",
    'while [ ! -e "$OUT/go" ]; do sleep 0.05; done; echo "# Better" | propose'));
  const topic_id = await site.topic("guide.md", "The first line", "Twice");
  const first = await site.job("rewrite", { topic_id });
  await site.status(first, "running");
  const ada = await visitor(t, site);
  const page = await ada.openLive("/jobs");
  const second = await site.job("rewrite", { topic_id });
  const waiting = page.locator("#queued .card");
  await waiting.getByText("is rewriting it").waitFor();
  assert.equal(await waiting.getByRole("link", { name: "another job" }).getAttribute("href"), `/jobs/${first}`);
  const own = await ada.openLive(`/jobs/${second}`);
  await own.locator("#job").getByText("is rewriting it").waitFor();
  fs.writeFileSync(path.join(site.out, "go"), "");
  await page.locator("#ended .card").nth(1).waitFor();
  await own.getByRole("link", { name: "Open the proposal" }).waitFor();
  assert.equal(await page.locator("#queued .card").count(), 0);
});

test("it works without scripts, fits a phone, and axe finds nothing serious", async (t) => {
  const [site, job] = await jobsOf(t, { fail: "echo 'no such file' >&2; exit 3" });
  await site.status(job);
  const plain = await visitor(t, site, { script: false });
  const page = await plain.open(`/jobs/${job}`);
  assert.match(await page.getByRole("log").textContent(), /no such file/);
  await page.getByRole("link", { name: "Standard output" }).click();
  await page.getByRole("button", { name: "Run again" }).click();
  await page.waitForURL((url) => !url.pathname.includes(job));
  for (const theme of ["light", "dark"]) {
    for (const viewport of [DESKTOP, PHONE]) {
      const ada = await visitor(t, site, { theme, viewport });
      for (const address of ["/jobs", `/jobs/${job}`]) {
        const open = await ada.openLive(address);
        const width = await open.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(width <= 0, `${address} is ${width} px too wide`);
        assert.deepEqual(await findings(open), [], `${address} ${theme} ${viewport.width}`);
        await open.close();
      }
    }
  }
});
