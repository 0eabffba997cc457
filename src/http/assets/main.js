// The beginning of every page's script: loads the modules that the page names.
//
// A page works without any of this; what is here makes it live.

const MODULES = {
  // name in `data-module` → its module, which exports `start(element)`.
  review: () => import("./review.js"),
  topic: () => import("./topic.js"),
};

for (const element of document.querySelectorAll("[data-module]")) {
  for (const name of element.dataset.module.split(" ")) {
    MODULES[name]?.().then((module) => module.start(element));
  }
}
