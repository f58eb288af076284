"use strict";

// Queries are in the address: #photo-17 is a photo of the index, #upload the last files. So the browser's way back works.
const at = (id) => document.getElementById(id);
let uploads = []; // the last files, as queries
let queries = []; // shown: of `uploads`, or one photo of the index
let index = null; // what /api/index says
let turn = 0; // counts searches of all queries

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
  if (photo.similarity === 1) caption.append(element("span", { className: "same" }, "the same picture"));
  else if (photo.far) caption.append(element("span", { className: "faint" }, "far"));
  if (photo.label && queryLabel) {
    const same = photo.label === queryLabel;
    caption.append(element("span", { className: same ? "same" : "other" }, same ? "✓ same class" : "✗ other class"));
  }
  if (photo.label) caption.append(named("", photo.label));
  caption.append(named("faint", photo.name.split("/").pop()));
  const picture = element("button", { type: "button", title: "Full size" }, frame(photo.picture, nameOf(photo), GONE));
  picture.addEventListener("click", () => showLarge(photo));
  return element("li", { className: photo.far ? "is-far" : "" }, picture, caption, element("a", { href: `#photo-${photo.row}` }, "More like this"));
}

function tiles(photos, queryLabel) {
  return element("ol", { className: "tiles" }, ...photos.map((photo) => tile(photo, queryLabel)));
}

function showTitle(title, hint) {
  at("found-title").textContent = title;
  at("hint").textContent = hint;
}

// The part of a query that is compared, as a rectangle over its picture.
function outline(box, crop) {
  const mark = box.querySelector(".crop") ?? box.appendChild(element("span", { className: "crop" }));
  mark.hidden = !crop;
  if (crop) ["left", "top", "right", "bottom"].forEach((side, place) => {
    mark.style[side] = `${100 * (place < 2 ? crop[place] : 1 - crop[place])}%`;
  });
}

// A drag over the picture draws the rectangle. Where a finger scrolls the page, it does not draw.
function drawable(box, query, byFinger) {
  outline(box, query.crop);
  let from = null;
  let drawn = null;
  const place = (event) => {
    const { left, top, width, height } = box.getBoundingClientRect();
    return [(event.clientX - left) / width, (event.clientY - top) / height].map((share) => Math.min(1, Math.max(0, share)));
  };
  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !box.querySelector("img") || (event.pointerType === "touch" && !byFinger)) return;
    from = [event.clientX, event.clientY, ...place(event)];
    drawn = null;
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    if (!from || (!drawn && Math.hypot(event.clientX - from[0], event.clientY - from[1]) < 6)) return;
    const [x, y] = place(event);
    drawn = [Math.min(x, from[2]), Math.min(y, from[3]), Math.max(x, from[2]), Math.max(y, from[3])];
    outline(box, drawn);
  });
  const end = (event) => {
    const done = event.type === "pointerup" && from && drawn;
    if (from && drawn && !done) outline(box, query.crop);
    from = null;
    if (done) cropTo(query, drawn);
  };
  box.addEventListener("pointerup", end);
  box.addEventListener("pointercancel", end);
  return () => drawn !== null; // whether the click that follows ended a drag
}

function cropTo(query, crop) {
  query.crop = crop && crop.map((edge) => Number(edge.toFixed(4)));
  at("large").close();
  ask(query);
}

function pictureOf(query, byFinger, large) {
  const box = frame(query.address && large && query.row !== null ? `${query.address}&large=true` : query.address, query.name, GONE);
  box.classList.add("whole");
  const wasDrag = index.takes_uploads && !query.files ? drawable(box, query, byFinger) : () => false;
  return { box, wasDrag };
}

function showLarge(photo, query = null) {
  const address = photo.picture && `${photo.picture}&large=true`;
  const box = query ? pictureOf(query, true, true).box : frame(address, nameOf(photo), GONE);
  box.classList.add("whole");
  box.querySelector("img")?.addEventListener("load", ({ target: image }) => { // small photos are enlarged
    const ratio = image.naturalWidth / image.naturalHeight;
    image.style.width = `${Math.min(Math.max(image.naturalWidth, 400 * Math.min(1, ratio)), 0.7 * innerHeight * ratio)}px`;
  });
  at("large-picture").replaceChildren(box);
  const similarity = photo.similarity === undefined ? "" : `${photo.rank}. ${photo.similarity.toFixed(4)}  `;
  at("large-title").textContent = query ? query.name : similarity + nameOf(photo);
  at("more").hidden = query !== null;
  at("more").href = query ? "#" : `#photo-${photo.row}`;
  at("crop").hidden = !query || !index.takes_uploads;
  if (query) {
    const edges = query.crop ?? [0, 0, 1, 1];
    at("crop").querySelectorAll("input").forEach((input, place) => { input.value = Number((100 * edges[place]).toFixed(2)); });
    at("crop").onsubmit = (event) => {
      event.preventDefault();
      cropTo(query, [...at("crop").querySelectorAll("input")].map((input) => input.valueAsNumber / 100));
    };
  }
  at("large").showModal();
}

// What a photo is called from now on, in the index.
function naming(query) {
  const input = element("input", { name: "name", required: true, maxLength: 100, placeholder: "Name", ariaLabel: "Name" });
  input.setAttribute("list", "names");
  const text = query.found.verdict === "known" ? "Name it" : "New individual: name it";
  const form = element("form", { className: "naming" }, input, element("button", {}, text));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = new FormData();
    body.append("photo", query.file);
    try {
      const { photo } = await answer(`api/photos?${new URLSearchParams({ label: input.value })}`, { method: "POST", body });
      await readIndex();
      form.replaceWith(element("p", {}, "Added: ", element("a", { href: `#photo-${photo.row}` }, photo.label)));
    } catch (error) {
      showError(error.message);
    }
  });
  return form;
}

function verdictOf(query) {
  const { verdict } = query.found ?? {};
  if (!verdict) return null;
  const isKnown = verdict === "known";
  const text = isKnown ? "Known: near a photo of the index." : `${verdict[0].toUpperCase()}${verdict.slice(1)}.`;
  return element("p", { className: isKnown ? "verdict" : "verdict unlike" }, text);
}

function figureOf(query, attention) {
  const { box, wasDrag } = pictureOf(query, false, false);
  const open = (event) => { if (event.currentTarget !== box || !wasDrag()) showLarge({}, query); };
  const button = (text, action) => {
    const made = element("button", { type: "button" }, text);
    made.addEventListener("click", action);
    return made;
  };
  box.addEventListener("click", open);
  const caption = element("figcaption", {}, named("", query.name));
  if (query.files) {
    const photos = uploads.map(({ address, name }) => frame(address, name, GONE));
    return element("div", { className: "query" }, element("p", {}, query.name), element("div", { className: "photos" }, ...photos));
  }
  if (!query.refused) caption.append(button(index.takes_uploads ? "Search with a part" : "Full size", open));
  if (query.crop) caption.append(button("Search with the whole", () => cropTo(query, null)));
  const shown = [element("figure", {}, box, caption)];
  if (attention) {
    const { lowest, highest, overlay } = attention;
    const scale = element("span", { className: "scale" });
    const ends = element("span", { className: "ends" }, element("span", {}, `${lowest.toFixed(2)} ×`), element("span", {}, `${highest.toFixed(2)} ×`));
    const text = "Where GSP looks: its weights, as multiples of those of average pooling.";
    const over = frame(overlay, "The photo under the colours of GSP's weights", GONE);
    shown.push(element("figure", {}, over, element("figcaption", {}, scale, ends, text)));
  }
  return element("div", { className: "query" }, ...shown);
}

function showStart() {
  at("status").textContent = "";
  showTitle("Photos of the index", "Search with one of them, or with photos of your own.");
  at("found").replaceChildren(tiles(index.examples, ""));
}

function parameters(query) {
  const chosen = new URLSearchParams({ count: at("count").value || "12" });
  if (at("label").value) chosen.set("label", at("label").value);
  for (const { name, value } of document.querySelectorAll("select.where")) if (value) chosen.append("where", `${name}=${value}`);
  if (query.crop) chosen.set("crop", query.crop.join(","));
  if (query.row !== null) chosen.set("version", index.version);
  return chosen;
}

// Fills a query's row with its neighbours, or with what is wrong.
async function ask(query) {
  query.pending?.abort();
  const { signal } = (query.pending = new AbortController());
  query.place.classList.add("is-busy");
  let content;
  let attention = null;
  try {
    let found;
    if (query.refused) throw new Error(query.refused);
    if (query.row !== null) {
      found = await answer(`api/photos/${query.row}/neighbours?${parameters(query)}`, { signal });
      query.address = found.query.picture;
      query.name = nameOf(found.query);
    } else {
      const body = new FormData();
      for (const file of query.files ?? [query.file]) body.append("photo", file);
      found = await answer(`api/search?${parameters(query)}`, { method: "POST", body, signal });
    }
    query.found = found;
    attention = found.query.attention;
    content = found.neighbours.length ? tiles(found.neighbours, found.query.label) : element("p", {}, "No photo is left to compare with.");
  } catch (error) {
    if (error.name === "AbortError") return;
    query.found = null;
    content = element("p", { className: "error", role: "alert" }, error.message);
  }
  query.place.classList.remove("is-busy");
  const figure = figureOf(query, attention);
  figure.append(...[verdictOf(query), index.takes_names && query.found && query.file ? naming(query) : null].filter(Boolean));
  query.place.replaceChildren(figure, content);
  showStatus();
}

function showStatus() {
  const found = queries.flatMap((query) => query.found ?? []);
  const neighbours = found.reduce((sum, each) => sum + each.neighbours.length, 0);
  const seconds = found.reduce((sum, each) => sum + each.seconds, 0).toFixed(2);
  const only = at("label").value ? ` of the class ${at("label").value}` : "";
  const of = queries.length > 1 ? ` of ${found.length} photos` : "";
  at("status").textContent = found.length ? `${neighbours} neighbours${only}${of}, in ${seconds} s.` : "";
}

async function search() {
  const mine = ++turn;
  at("error").hidden = true;
  if (!queries.length) return showStart();
  const way = index.takes_uploads ? "Click a photo for its full size." : "Click a photo for its full size. This index keeps no model, so it takes no photos of yours.";
  showTitle("Neighbours", `Similarity: ${index.metric.replace("_", " ")}. ${way}`);
  at("status").textContent = "Searching …";
  for (const query of queries) {
    query.found = null;
    query.place ??= element("article", { className: "row" }, element("p", { className: "faint" }, `${query.name} …`));
  }
  at("found").replaceChildren(...queries.map((query) => query.place));
  at("found").classList.toggle("several", queries.length > 1);
  for (const query of queries) {
    if (mine !== turn) return;
    await ask(query); // one after the other: others ask, too
  }
}

async function go() {
  for (const query of queries) query.pending?.abort();
  const row = /^#photo-(\d+)$/.exec(location.hash)?.[1];
  if (row !== undefined) queries = [{ row, name: `photo ${row}`, address: null, crop: null }];
  else queries = location.hash === "#upload" ? uploads : [];
  at("together").hidden = queries.length < 2;
  if (queries.length > 1 && at("one").checked) {
    const files = uploads.map(({ file }) => file);
    const refused = uploads.find((each) => each.refused)?.refused;
    queries = [{ files, refused, row: null, name: `${files.length} photos of one thing`, address: null, crop: null }];
  }
  at("large").close();
  const searched = search();
  if (queries.length) at("found-title").focus({ preventScroll: true });
  scrollTo({ top: 0 });
  await searched;
}

function showError(message) {
  at("status").textContent = "";
  at("error").textContent = message;
  at("error").hidden = false;
}

function take(files) {
  if (!files.length || !index) return;
  if (!index.takes_uploads) return showError("This page was started without --model, so it cannot embed photos.");
  for (const { address } of uploads) URL.revokeObjectURL(address);
  const mostFiles = index.limits.together;
  uploads = [...files].slice(0, mostFiles).map((file) => {
    const most = index.limits.upload_bytes;
    const refused = file.size > most && `The file has ${(file.size / 1e6).toFixed(1)} MB; expected at most ${most / 1e6} MB.`;
    return { file, refused, row: null, name: file.name, address: URL.createObjectURL(file), crop: null };
  });
  if (location.hash !== "#upload") history.pushState(null, "", "#upload");
  go();
  if (files.length > mostFiles) showError(`Received ${files.length} photos; the first ${mostFiles} are searched.`);
}

async function readIndex() {
  index = await answer("api/index");
  const { classes } = index;
  const ofClasses = classes.length ? ` of ${classes.length} classes` : "";
  at("summary").textContent = `${index.photos.toLocaleString("en")} photos${ofClasses} in ${index.index}`;
  at("names").replaceChildren(...classes.map(({ name }) => element("option", { value: name })));
}

async function start() {
  try {
    await readIndex();
  } catch (error) {
    return showError(error.message);
  }
  const { classes, limits } = index;
  at("drop").hidden = !index.takes_uploads;
  at("limits").textContent = `${limits.formats.join(", ")}; up to ${limits.upload_bytes / 1e6} MB and ${limits.pixels / 1e6} megapixels`;
  at("count").max = Math.min(limits.neighbours, index.photos);
  at("classes").hidden = !classes.length;
  at("label").append(...classes.map(({ name, photos }) => element("option", { value: name }, `${name} (${photos})`)));
  for (const { name, values } of index.columns) {
    const select = element("select", { id: `where-${name}`, name, className: "where" }, element("option", { value: "" }, "all"));
    select.append(...values.map((value) => element("option", { value }, value)));
    select.addEventListener("change", search);
    at("controls").append(element("p", {}, element("label", { htmlFor: select.id }, name), select));
  }
  at("file").addEventListener("change", () => {
    const files = [...at("file").files];
    at("file").value = ""; // the same file may be chosen again, once it has changed
    take(files);
  });
  at("one").addEventListener("change", go);
  at("count").addEventListener("change", search);
  at("label").addEventListener("change", search);
  at("controls").addEventListener("submit", (event) => { event.preventDefault(); search(); });
  document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("is-over"); });
  document.addEventListener("dragleave", () => document.body.classList.remove("is-over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("is-over");
    take([...event.dataTransfer.files]);
  });
  at("close").addEventListener("click", () => at("large").close());
  at("large").addEventListener("click", (event) => { if (event.target === at("large")) at("large").close(); });
  addEventListener("hashchange", go);
  await go();
}

start();
