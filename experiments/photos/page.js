"use strict";

// Queries are in the address: #photo-17 is a photo of the index, #upload the last file. So the browser's way back works.
const at = (id) => document.getElementById(id);
let upload = null; // the last file
let uploadAddress = null; // of its preview
let index = null; // what /api/index says
let pending = null; // the request under way

function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children.filter((child) => child !== null)); // texts become text, never markup
  return made;
}

async function answer(address, options) {
  let response;
  try {
    response = await fetch(address, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. It may have ended, or have refused the upload.");
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(content.error || `The server answered with status ${response.status}.`);
  return content;
}

function frame(address, alt, missing) {
  const box = element("span", { className: "frame" });
  const note = (text) => box.replaceChildren(element("span", { className: "nothing" }, text));
  if (address === null) note(missing);
  else {
    const image = element("img", { alt, decoding: "async" });
    image.addEventListener("error", () => note("No picture: the file cannot be read."));
    image.src = address;
    box.append(image);
  }
  return box;
}

// A name may break after its separators.
function named(className, name) {
  const parts = name.split(/(?<=[_.\/-])/);
  return element("span", { className }, ...parts.flatMap((part, place) => (place ? [element("wbr", {}), part] : [part])));
}

const GONE = "No picture: the file is gone.";
const nameOf = (photo) => (photo.label && !photo.name.startsWith(`${photo.label}/`) ? `${photo.label}: ${photo.name}` : photo.name);

function tile(photo, queryLabel) {
  const caption = element("span", { className: "caption" });
  if (photo.rank !== undefined) {
    caption.append(element("span", { className: "similarity" }, `${photo.rank}. ${photo.similarity.toFixed(4)}`));
  }
  if (photo.label && queryLabel) {
    const same = photo.label === queryLabel;
    caption.append(element("span", { className: same ? "same" : "other" }, same ? "✓ same class" : "✗ other class"));
  }
  if (photo.label) caption.append(named("", photo.label));
  caption.append(named("faint", photo.name.split("/").pop()));
  const link = element("a", { href: `#photo-${photo.row}`, title: "More like this" }, frame(photo.picture, nameOf(photo), GONE), caption);
  return element("li", {}, link);
}

function showTiles(title, hint, photos, queryLabel) {
  at("found-title").textContent = title;
  at("hint").textContent = hint;
  at("found").replaceChildren(...photos.map((photo) => tile(photo, queryLabel)));
}

function figure(box, ...caption) {
  return element("figure", {}, box, element("figcaption", {}, ...caption));
}

function showQuery(query, address, name) {
  at("query").hidden = false;
  const figures = [figure(frame(address, name, GONE), named("", name))];
  if (query.attention) {
    const { lowest, highest, overlay } = query.attention;
    const scale = element("span", { className: "scale" });
    const ends = element("span", { className: "ends" }, element("span", {}, `${lowest.toFixed(2)} ×`), element("span", {}, `${highest.toFixed(2)} ×`));
    const text = "Where GSP looks in what the network sees of the photo: weights, as multiples of those of average pooling.";
    figures.push(figure(frame(overlay, "The photo under the colours of GSP's weights", GONE), scale, ends, text));
  }
  at("figures").replaceChildren(...figures);
}

function showStart() {
  at("query").hidden = true;
  showTiles("Photos of the index", "Open one to see photos that are like it.", index.examples, "");
}

async function search() {
  pending?.abort();
  const controller = (pending = new AbortController());
  const place = location.hash;
  at("error").hidden = true;
  const parameters = new URLSearchParams({ count: at("count").value || "12" });
  if (at("label").value) parameters.set("label", at("label").value);
  for (const { name, value } of document.querySelectorAll("select.where")) if (value) parameters.append("where", `${name}=${value}`);
  const row = /^#photo-(\d+)$/.exec(place)?.[1];
  if (row === undefined && (place !== "#upload" || upload === null)) {
    at("status").textContent = "";
    showStart();
    return;
  }
  at("status").textContent = "Searching …";
  try {
    let found;
    if (row !== undefined) {
      found = await answer(`api/photos/${row}/neighbours?${parameters}`, { signal: controller.signal });
      showQuery(found.query, found.query.picture, nameOf(found.query));
    } else {
      const body = new FormData();
      body.append("photo", upload);
      found = await answer(`api/search?${parameters}`, { method: "POST", body, signal: controller.signal });
      showQuery(found.query, uploadAddress, upload.name);
    }
    const only = at("label").value ? ` of the class ${at("label").value}` : "";
    const hint = `Similarity: ${index.metric.replace("_", " ")}. Open a photo to see more like it.`;
    showTiles("Neighbours", hint, found.neighbours, found.query.label);
    at("status").textContent = `${found.neighbours.length} neighbours${only}, in ${found.seconds.toFixed(2)} s.`;
    at("query-title").focus({ preventScroll: true });
    at("query").scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (error.name === "AbortError") return;
    showStart();
    showError(error.message);
  }
}

function showError(message) {
  at("status").textContent = "";
  at("error").textContent = message;
  at("error").hidden = false;
}

function take(file) {
  if (!file || !index) return;
  if (!index.takes_uploads) return showError("This page was started without --model, so it cannot embed photos.");
  if (file.size > index.limits.upload_bytes) {
    return showError(`The file has ${(file.size / 1e6).toFixed(1)} MB; expected at most ${index.limits.upload_bytes / 1e6} MB.`);
  }
  if (uploadAddress) URL.revokeObjectURL(uploadAddress);
  upload = file;
  uploadAddress = URL.createObjectURL(file);
  if (location.hash === "#upload") search();
  else location.hash = "#upload";
}

async function start() {
  try {
    index = await answer("api/index");
  } catch (error) {
    return showError(error.message);
  }
  const { classes, limits } = index;
  const ofClasses = classes.length ? ` of ${classes.length} classes` : "";
  at("summary").textContent = `${index.photos.toLocaleString("en")} photos${ofClasses} in ${index.index}`;
  at("drop").hidden = !index.takes_uploads;
  at("limits").textContent = `${limits.formats.join(", ")}; up to ${limits.upload_bytes / 1e6} MB and ${limits.pixels / 1e6} megapixels`;
  at("count").max = Math.min(limits.neighbours, index.photos);
  at("classes").hidden = !classes.length;
  at("label").append(...classes.map(({ name, photos }) => element("option", { value: name }, `${name} (${photos})`)));
  for (const { name, values } of index.columns) {
    const select = element("select", { id: `where-${name}`, name, className: "where" }, element("option", { value: "" }, "all"));
    select.append(...values.map((value) => element("option", { value }, value)));
    select.addEventListener("change", search);
    at("count").closest(".options").append(element("p", {}, element("label", { htmlFor: select.id }, name), select));
  }
  at("file").addEventListener("change", () => {
    const [file] = at("file").files;
    at("file").value = ""; // the same file may be chosen again, once it has changed
    take(file);
  });
  at("count").addEventListener("change", search);
  at("label").addEventListener("change", search);
  at("controls").addEventListener("submit", (event) => { event.preventDefault(); search(); });
  document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("is-over"); });
  document.addEventListener("dragleave", () => document.body.classList.remove("is-over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("is-over");
    take(event.dataTransfer.files[0]);
  });
  addEventListener("hashchange", search);
  await search();
}

start();
