// The assistant with a person's own subscription, in a browser: signing in by an address that is
// pasted, asking, signing out. The gateway is the real one; what speaks with providers is played.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { findings, isWithin, PHONE, picture, serve, visitor } from "./harness.mjs";

/** Puts in place of npm's package what says hello by itself. */
function install(site) {
  const at = path.join(site.data, "services/pi-gateway/app/node_modules/@earendil-works/pi-ai");
  fs.mkdirSync(at, { recursive: true });
  const stand = path.join(import.meta.dirname, "../data/pi-ai");
  for (const name of ["package.json", "oauth.mjs"]) fs.copyFileSync(path.join(stand, name), path.join(at, name));
  fs.writeFileSync(path.join(at, "key"), "k");
  fs.writeFileSync(path.join(at, "index.mjs"), `
    export const getModel = (provider, id) => ({ provider, id, api: "played" });
    export async function* streamSimple() {
      const text = "Hello **you**";
      yield { type: "text_delta", delta: text };
      const content = [{ type: "text", text }];
      yield { type: "done", message: { content, stopReason: "stop", usage: { input: 1, output: 1 } } };
    }`);
}

function assistant(site) {
  site.lua += `wb.engine "pi" { type = "gateway", provider = "openai-codex", model = "m-1" }
wb.assistant { runtimes = { gateway_subscription = "pi" } }
`;
}

for (const [name, options] of [["desktop", {}], ["phone", { viewport: PHONE, touch: true }]]) {
  test(`a person signs in with their subscription: ${name}`, async (t) => {
    const site = await serve(t, {}, assistant);
    const ada = await visitor(t, site, options);
    const page = await ada.openLive("/assistant");
    await page.getByText("wiki-browser gateway install").waitFor();
    install(site);
    await page.reload();
    await page.getByRole("link", { name: "Sign in" }).click();
    await picture(page, `gateway-${name}`);
    await page.getByRole("button", { name: "Sign in" }).click();
    const away = page.getByRole("link", { name: "Sign in at the provider" });
    await away.waitFor();
    assert.equal(await away.getAttribute("href"), "https://provider.test/sign-in?x=1");
    await page.getByText("Your code is 1234").waitFor();
    assert.deepEqual(await findings(page), []);
    assert.ok(await isWithin(page));
    await picture(page, `gateway-waits-${name}`);
    await page.getByLabel("Address or code").fill("http://localhost:1455/auth/callback?code=x");
    await page.getByRole("button", { name: "Finish" }).click();
    // The provider may take a moment.
    await page.getByText(/You are signed in|expires fifteen minutes/).waitFor();
    while (!(await page.getByText("You are signed in").isVisible())) await page.reload();
    await picture(page, `gateway-done-${name}`);
    await page.getByRole("link", { name: "Ask the assistant" }).click();
    await page.getByLabel("Message", { exact: true }).fill("hello");
    await page.getByRole("button", { name: "Send" }).click();
    await page.locator(".chat-answer:not(.chat-live) strong", { hasText: "you" }).waitFor();
    assert.deepEqual(await findings(page), []);
    await picture(page, `gateway-answer-${name}`);
    await page.goto(`${site.origin}/subscription`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in" }).waitFor();
  });
}
