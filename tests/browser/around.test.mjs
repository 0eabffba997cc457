// What stands around a document: the others beside it, links to its parts, the room of its images,
// and its lines, which follow it as the rendered text does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { layoutShift, PHONE, serve, until, visitor, young } from "./harness.mjs";

const WIDE = { width: 1440, height: 900 };
const LAPTOP = { width: 1024, height: 768 };
const FILES = {
  "README.md": "# Read me\n\nWords.\n",
  "guide/one.md": "# One\n\n## First part\n\nWords.\n\n## Second part\n\nMore words.\n",
  "guide/two.md": "# Two\n\nWords.\n",
  "guide/deep/three.md": "# Three\n\nWords.\n",
};

/** Returns a grey picture of some size. */
function picture(width, height) {
  const chunk = (name, body) => {
    const typed = Buffer.concat([Buffer.from(name), body]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(body.length);
    sum.writeUInt32BE(crc(typed));
    return Buffer.concat([length, typed, sum]);
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head[8] = 8;
  const rows = deflateSync(Buffer.alloc((width + 1) * height, 128));
  return Buffer.concat([
    Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head), chunk("IDAT", rows), chunk("IEND", Buffer.alloc(0)),
  ]);
}

function crc(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

test("the documents stand beside the one that is read, and can be folded for good", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { viewport: WIDE });
  const page = await ada.openLive("/d/guide/one.md");
  const tree = page.getByRole("navigation", { name: "Documents", exact: true });
  assert.equal(await tree.locator("[aria-current]").textContent(), "One");
  // What is beside it is one click away; what is in other folders, two.
  await tree.getByRole("link", { name: "Two" }).click();
  await page.waitForURL(`${site.origin}/d/guide/two.md`);
  assert.ok(await tree.getByRole("link", { name: "Three" }).isHidden());
  await tree.getByText("deep", { exact: true }).click();
  await tree.getByRole("link", { name: "Three" }).click();
  await page.waitForURL(`${site.origin}/d/guide/deep/three.md`);
  // A new document comes by itself.
  site.write("guide/new.md", "# New\n");
  site.commit("another");
  await tree.getByRole("link", { name: "New" }).waitFor();
  // Folded: also on the next page, from its first bytes on.
  const isKept = (look) => until("the browser keeps it", async () =>
    (await ada.context.cookies()).some((it) => it.name === "wb_look" && it.value === look));
  await tree.getByRole("button", { name: "Hide" }).click();
  await tree.getByRole("link", { name: "New" }).waitFor({ state: "hidden" });
  await isKept("system.on.off");
  await page.goto("/d/guide/one.md?text=1");
  assert.match(await (await page.request.get("/d/README.md")).text(), /id="tree"[^>]* data-folded/);
  assert.ok(await tree.getByRole("link", { name: "Two" }).isHidden());
  await tree.getByText("Documents").click();
  await tree.getByRole("link", { name: "Two" }).waitFor();
  await tree.getByRole("button", { name: "Keep open" }).click();
  await isKept("system.on.on");
  await page.goto("/d/README.md");
  await tree.getByText("guide", { exact: true }).waitFor();
  assert.equal(await page.locator("html").getAttribute("data-keys"), null, "the rest of the look stays");
});

test("on a laptop the list unfolds above the text, on a phone there is none", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { viewport: LAPTOP });
  const page = await ada.open("/d/guide/one.md");
  const two = page.locator("#tree").getByRole("link", { name: "Two" });
  assert.ok(await two.isHidden());
  await page.locator("#tree > details > summary").click();
  await two.click();
  await page.waitForURL(`${site.origin}/d/guide/two.md`);
  const phone = await visitor(t, site, { viewport: PHONE, touch: true });
  const small = await phone.open("/d/guide/one.md");
  assert.ok(await small.locator("#tree").isHidden());
});

test("a heading has a link that is copied, and that is no part of its words", async (t) => {
  const site = await serve(t, { files: FILES });
  const ada = await visitor(t, site, { viewport: WIDE });
  await ada.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: site.origin });
  const page = await ada.open("/d/guide/one.md");
  await page.locator("[data-ready]").waitFor();
  const heading = page.getByRole("heading", { name: "Second part", exact: true });
  const link = page.locator(".md-head", { has: heading }).getByRole("link", { name: "Link to “Second part”" });
  const opacity = () => link.evaluate((it) => getComputedStyle(it).opacity);
  assert.equal(await opacity(), "0");
  await link.focus();
  assert.equal(await opacity(), "1", "it is seen by who comes with keys");
  await page.keyboard.press("Enter");
  const address = `${site.origin}/d/guide/one.md#md-second-part`;
  await page.waitForURL(address);
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), address);
  await page.getByText("Link copied.").waitFor({ state: "attached" });
});

test("images have their room before they come", async (t) => {
  const site = await serve(t, {
    files: {
      "pictures.md": `# Pictures\n\n![A grey field](img/wide.png)\n\n${"Words after it. ".repeat(40)}\n`,
      "img/wide.png": picture(600, 400),
    },
  });
  const ada = await visitor(t, site, { viewport: WIDE });
  const page = await ada.context.newPage();
  let [letGo, asked] = [null, false];
  const held = new Promise((resolve) => { letGo = resolve; });
  await page.route("**/raw/img/wide.png", async (route) => {
    asked = true;
    await held;
    await route.continue();
  });
  await page.goto("/d/pictures.md", { waitUntil: "domcontentloaded" });
  await page.locator("[data-ready]").waitFor();
  await until("the image is asked for", () => asked);
  const image = page.locator("#text img");
  const before = await image.boundingBox();
  assert.ok(before.height > 300 && Math.abs(before.width / before.height - 1.5) < 0.01, JSON.stringify(before));
  letGo();
  await page.waitForFunction(() => document.querySelector("#text img").naturalWidth === 600);
  assert.deepEqual(await image.boundingBox(), before);
  assert.ok(await layoutShift(page) < 0.001);
});

test("lines follow the document: new words, new Topics, and what is being written stays", async (t) => {
  const site = await serve(t, { files: { "plain.txt": "First line.\nSecond line.\n" }, sources: "**/*.{md,txt}" });
  const ada = await visitor(t, site, { viewport: WIDE });
  const page = await ada.openLive("/d/plain.txt");
  await page.locator("[data-ready]").waitFor();
  await site.topic("plain.txt", "Second line", "Say more");
  await page.locator("#text mark", { hasText: "Second line" }).waitFor();
  await page.locator("#notes").getByText("Say more").waitFor();
  site.write("plain.txt", "A line before.\nFirst line.\nSecond line.\n");
  await page.locator("#L1", { hasText: "A line before." }).waitFor();
  await page.locator("#L3 mark", { hasText: "Second line" }).waitFor();
  // Somebody writes about words that change: it is said, and nothing is lost.
  await page.locator("#L2 .line-text").selectText();
  await page.locator(".reader-pop [aria-label='Comment on this passage']").click();
  await page.locator(".composer textarea[name=body]").fill("Half a thought");
  // The server is asked where the words are before they change: else it refuses, rightly.
  await page.locator(".composer blockquote", { hasText: "First line." }).waitFor();
  site.write("plain.txt", "Another beginning.\nThe line.\nSecond line.\n");
  await page.getByText("This passage has changed in the document.").waitFor();
  assert.ok(await page.locator("#L1", { hasText: "A line before." }).isVisible());
  await page.getByRole("button", { name: "Show the new text" }).click();
  await page.locator("#L1", { hasText: "Another beginning." }).waitFor();
  await page.locator("#L2 .line-text").selectText();
  await page.locator(".reader-pop [aria-label='Comment on this passage']").click();
  assert.equal(await page.locator(".composer textarea[name=body]").inputValue(), "Half a thought");
});

test("what is done to a job on a Topic's page leads back to the Topic", async (t) => {
  const site = await serve(t, {}, (it) => {
    it.topicKind("slow", "sleep 60");
    it.topicKind("breaks", "exit 3");
  });
  const topic = await site.topic("guide.md", "The first line", "Please");
  const failed = await site.job("breaks", { topic_id: topic });
  await site.status(failed, "failed");
  const ada = await visitor(t, site, { script: false });
  const page = await ada.open(`/topics/${topic}`);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.waitForURL(`${site.origin}/topics/${topic}`);
  const again = (await site.get(`/api/agent/jobs?topic_id=${topic}`)).items.find((it) => it.retry_of === failed);
  await site.status(again.id);
  const slow = await site.job("slow", { topic_id: topic });
  await page.reload();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.waitForURL(`${site.origin}/topics/${topic}`);
  await site.status(slow, "cancelled");
});

test("an admin adds, changes and disables people on the page", async (t) => {
  const site = await serve(t);
  const ada = await visitor(t, site, { allow: [/status of 400/] });
  const page = await ada.openLive("/settings");
  await page.getByLabel("User name").fill("Bo Berg");
  await page.locator("#people").getByLabel("Display name").fill("Bo Berg");
  await page.getByRole("button", { name: "Add person" }).click();
  // What is wrong stands in the form, and what was typed stays.
  await page.locator("#people .form-refusal", { hasText: "is not a valid user name" }).waitFor();
  assert.equal(await page.locator("#people").getByLabel("Display name").inputValue(), "Bo Berg");
  await page.getByLabel("User name").fill("bo");
  await page.getByRole("button", { name: "Add person" }).click();
  await page.getByRole("cell", { name: "Bo Berg" }).waitFor();
  const bo = await visitor(t, site, { person: "bo", allow: [/status of 401/] });
  const other = await bo.open("/settings");
  assert.equal(await other.locator("#people").count(), 0, "a member manages nobody");
  await page.getByLabel("Role of bo").selectOption("viewer");
  await page.getByRole("button", { name: "Change the role of bo" }).click();
  await until("the role", async () => (await site.get("/api/persons")).items.some((it) => it.name === "bo" && it.role === "viewer"));
  // A double click disables, and does not press what takes the button's place.
  const place = await page.getByRole("button", { name: "Disable bo" }).boundingBox();
  const at = [place.x + place.width / 2, place.y + place.height / 2];
  await young(page);
  await page.mouse.click(...at);
  await page.getByRole("button", { name: "Enable bo" }).waitFor();
  await until("it is said", async () => await page.locator("#say").textContent() === "Person disabled");
  await page.mouse.click(...at);
  await page.getByRole("button", { name: "Enable bo" }).waitFor();
  await other.goto("/settings");
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("button", { name: "Enable bo" }).press("Enter");
  await page.getByRole("button", { name: "Disable bo" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Disable ada" }).count(), 0, "nobody locks themselves out");
});

test("whoever opens a page without being signed in gets it once they are, in another tab too", async (t) => {
  const site = await serve(t, {});
  const ada = await visitor(t, site, { signedIn: false, allow: [/status of 401/] });
  const page = await ada.open("/search?q=well#main");
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  const other = await ada.open(await site.loginLink());
  await other.locator("main button[type=submit]").click();
  await other.waitForURL(`${site.origin}/search?q=well#main`);
  // Once: Home is Home again.
  await other.goto("/");
  await other.waitForLoadState();
  assert.equal(new URL(other.url()).pathname, "/");
});
