// SPDX-License-Identifier: Apache-2.0
// Fetches the page every two seconds and replaces its main part. The server creates all markup.
"use strict";

const PERIOD_MS = 2000;
const stale = document.getElementById("stale");

async function refresh() {
  try {
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(5 * PERIOD_MS) });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = page.querySelector("main");
    stale.hidden = answer.ok && main !== null;
    if (answer.ok && main !== null) {
      const scrolled = [...document.querySelectorAll(".scroll")].map((region) => region.scrollLeft);
      document.querySelector("main").replaceWith(main);
      document.querySelectorAll(".scroll").forEach((region, n) => { region.scrollLeft = scrolled[n] ?? 0; });
      document.title = page.title;
    }
  } catch {
    stale.hidden = false;
  }
  setTimeout(refresh, PERIOD_MS);
}

setTimeout(refresh, PERIOD_MS);
