// The worker of the pages: shows what to do while the site cannot be reached. It keeps one page that
// says so, with its style, and nothing of what anybody reads here.
// `ASSETS`, the folder of this version, is written before the first line.

const PARTS = ["offline.html", "wb.css", "icon.svg"];

addEventListener("install", (event) => {
  event.waitUntil((async () => {
    const cache = await caches.open(ASSETS);
    await cache.addAll(PARTS.map((it) => `${ASSETS}/${it}`));
    await skipWaiting();
  })());
});

addEventListener("activate", (event) => {
  event.waitUntil((async () => {
    await clients.claim();
    const old = (await caches.keys()).filter((it) => it.startsWith("/assets/") && it !== ASSETS);
    await Promise.all(old.map((it) => caches.delete(it)));
    // The request goes out while this worker wakes up: nothing is slower for it.
    await registration.navigationPreload?.enable();
  })());
});

addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.mode === "navigate" && request.method === "GET") event.respondWith(navigate(event));
  else if (PARTS.some((it) => new URL(request.url).pathname === `${ASSETS}/${it}`)) {
    event.respondWith(fetch(request).catch(() => caches.match(request)));
  }
});

async function navigate(event) {
  try {
    return (await event.preloadResponse) ?? (await fetch(event.request));
  } catch {
    const page = await caches.match(`${ASSETS}/offline.html`);
    if (!page) return Response.error();
    const headers = new Headers(page.headers);
    headers.set("cache-control", "no-store");
    headers.delete("content-encoding");
    const text = (await page.text()).replaceAll("{assets}", ASSETS);
    return new Response(text, { status: 503, headers });
  }
}
