// The service worker: shows a page while the site cannot be reached, and notices of channels. It
// stores only that page and its style, and nothing that anybody reads here. `ASSETS`, the address of this version's files, is
// inserted before the first line.

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

addEventListener("message", (event) => {
  const { notice } = event.data ?? {};
  if (notice) event.waitUntil(show(notice));
});

async function show({ title, body, at }) {
  const seen = (it) => it.visibilityState === "visible" && new URL(it.url).pathname === at;
  if ((await tabs()).some(seen)) return;
  await registration.showNotification(title, { body, tag: at, data: at, icon: `${ASSETS}/icon-192.png` });
}

addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});

/** Leads to a tab that shows the channel, or to a new one: what is typed elsewhere stays there. */
async function open(at) {
  const there = (await tabs()).find((it) => new URL(it.url).pathname === at);
  return there ? there.focus() : clients.openWindow(at);
}

function tabs() {
  return clients.matchAll({ type: "window", includeUncontrolled: true });
}
