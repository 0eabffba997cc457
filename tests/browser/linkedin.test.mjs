// A person's LinkedIn account in a browser: connecting it, what can go wrong on the way, what the
// pages say of it, and disconnecting. LinkedIn is a stand-in; the server and its pages are the real ones.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { test } from "node:test";
import { findings, isSeen, isWithin, PHONE, picture, serve, visitor } from "./harness.mjs";

const NAME = "Ada <i>Lovelace</i>";

/**
 * LinkedIn: a page with two links back, and the two answers that the server asks for. `life` is how
 * long a sign-in lasts, in seconds.
 */
async function linkedin(t) {
  const played = { code: "good", life: 5_184_000, status: 200, home: "", asked: [] };
  const server = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const url = new URL(request.url, "http://linkedin.test");
    played.asked.push(`${request.method} ${url.pathname}`);
    const json = (status, body) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    };
    if (url.pathname === "/oauth/v2/authorization") {
      const state = url.searchParams.get("state");
      const back = (query) => `${played.home}/linkedin/callback?${new URLSearchParams({ state, ...query })}`;
      const denied = { error: "user_cancelled_authorize", error_description: "The user <b>cancelled</b>" };
      response.writeHead(200, { "content-type": "text/html" });
      response.end(`<!doctype html><title>LinkedIn</title><link rel="icon" href="data:,">
        <a href="${back({ code: played.code })}">Allow</a> <a href="${back(denied)}">Cancel</a>`);
    } else if (url.pathname === "/oauth/v2/accessToken") {
      const sent = new URLSearchParams(Buffer.concat(parts).toString());
      if (played.status !== 200) return json(played.status, {});
      if (sent.get("code") !== "good") return json(400, { error: "invalid_grant" });
      json(200, { access_token: "token-1", expires_in: played.life, scope: "openid,profile,w_member_social" });
    } else {
      json(200, { sub: "ada-1", name: NAME });
    }
  });
  t.after(() => server.close());
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  played.origin = `http://127.0.0.1:${server.address().port}`;
  return played;
}

function assistant(site) {
  for (const [name, text] of [["key", "k\n"], ["id", "app-1\n"], ["secret", "s\n"]]) {
    fs.writeFileSync(path.join(site.agents, name), text);
  }
  const secret = (name) => `wb.secret.file "${path.join(site.agents, name)}"`;
  site.lua += `wb.engine "sonnet" {
  type = "anthropic", model = "m-1", base_url = "http://127.0.0.1:1", key = ${secret("key")},
}
wb.assistant {
  runtimes = { anthropic_api_key = "sonnet" },
  linkedin = {
    client_id = ${secret("id")}, client_secret = ${secret("secret")}, version = "202610",
    redirect = "https://wiki.example.org/linkedin/callback",
  },
}
`;
}

for (const [name, options] of [["desktop", {}], ["phone", { viewport: PHONE, touch: true }]]) {
  test(`a person connects LinkedIn, and disconnects it: ${name}`, async (t) => {
    const played = await linkedin(t);
    const site = await serve(t, { env: { WB_LINKEDIN: played.origin } }, assistant);
    played.home = site.origin;
    // The one other place where this browser goes.
    const away = new RegExp(`^a request to ${played.origin}/`);
    const ada = await visitor(t, site, { ...options, allow: [away, /status of 503/] });
    const page = await ada.openLive("/assistant");
    const looked = async (what) => {
      assert.deepEqual(await findings(page), []);
      assert.ok(await isWithin(page));
      await picture(page, `linkedin-${what}-${name}`);
    };
    const at = (path) => page.goto(`${site.origin}${path}`);
    const alert = page.getByRole("alert");
    const press = async (button) => {
      await isSeen(page);
      await page.getByRole("button", { name: button, exact: true }).click();
    };
    const leave = async (link) => {
      await page.getByRole("link", { name: "Continue at LinkedIn" }).click();
      await page.getByRole("link", { name: link }).click();
    };
    await page.locator("#chat-linkedin").getByRole("link", { name: "LinkedIn" }).click();
    await page.getByRole("heading", { name: "LinkedIn" }).waitFor();
    await looked("none");
    await press("Connect LinkedIn");
    await page.getByText("expires ten minutes after it began").waitFor();
    await looked("begun");
    // Whoever changes their mind comes back to a page that says so, and nothing is connected.
    await leave("Cancel");
    await alert.getByText("Your account was not connected: The user <b>cancelled</b>").waitFor();
    await looked("cancelled");
    await press("Try again");
    // LinkedIn refuses the code; it cannot be reached; it does not accept the app.
    for (const [code, status, words] of [
      ["bad", 200, "LinkedIn refused the sign-in"],
      ["good", 503, "LinkedIn cannot be reached: status 503"],
      ["good", 401, "LinkedIn does not accept the site's app"],
    ]) {
      Object.assign(played, { code, status });
      await leave("Allow");
      await page.getByText("LinkedIn confirmed your sign-in").waitFor();
      await press("Connect");
      await alert.filter({ hasText: `Your account was not connected: ${words}` }).waitFor();
      await looked(`refused-${code}-${status}`);
      await press("Try again");
    }
    Object.assign(played, { code: "good", status: 200 });
    await leave("Allow");
    await looked("back");
    await press("Connect");
    await page.getByText(`Connected as ${NAME}`).waitFor();
    await looked("connected");
    // A sign-in counts once: the address in the history connects nothing again.
    const asked = played.asked.length;
    await page.goBack();
    await press("Connect");
    await alert.filter({ hasText: "this sign-in has expired, or is not yours" }).waitFor();
    assert.equal(played.asked.length, asked, "LinkedIn was not asked");
    await at("/assistant");
    await page.getByText(`connected as ${NAME}`).waitFor();
    // One that ends within a week is announced, and renewed without disconnecting.
    played.life = 86_400;
    await at("/linkedin");
    await press("Connect again");
    await leave("Allow");
    await press("Connect");
    await alert.filter({ hasText: "expires soon" }).waitFor();
    await looked("soon");
    await press("Disconnect");
    await page.getByRole("button", { name: "Connect LinkedIn" }).waitFor();
    assert.equal(await page.getByText(NAME).count(), 0);
    await looked("gone");
    assert.ok(!site.said().includes("token-1"));
  });
}
