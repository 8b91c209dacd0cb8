/* The only script of ours: says that what is shown is old, where the manager does not answer, and copies statements. */
(function () {
  "use strict";
  var banner = document.getElementById("stale");
  function show(isOld) { banner.hidden = !isOld; }
  ["htmx:sendError", "htmx:timeout", "htmx:responseError"].forEach(function (name) {
    document.body.addEventListener(name, function () { show(true); });
  });
  document.body.addEventListener("htmx:afterRequest", function (event) { if (event.detail.successful) { show(false); } });
  document.body.addEventListener("click", function (event) {
    var button = event.target.closest("button[data-copy]");
    if (!button || !navigator.clipboard) { return; }
    navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent).then(function () {
      button.textContent = "Copied";
    });
  });
})();
