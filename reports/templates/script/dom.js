  // Text from models, subtitles and file names only ever becomes text nodes: no innerHTML, no URL, no
  // attribute that runs. The page's policy would refuse anything else anyway.
  const byId = (id) => document.getElementById(id);

  // Packed pieces of the page: base64 of gzip of JSON. A few chunks are kept; a reader of ten thousand samples does
  // not fill the memory.
  const KEPT = 8;
  const unpacked = new Map();
  async function unpack(id) {
    if (!unpacked.has(id)) {
      const packed = Uint8Array.from(atob(byId(id).textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      unpacked.set(id, await new Response(stream).json());
      if (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
    }
    return unpacked.get(id);
  }

  // What turns a line around or hides in it is shown by its code.
  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
  const visible = (text) =>
    String(text).replace(HIDDEN, (c) => "\u27e8U+" + c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "\u27e9");

  function make(name, properties = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key.includes("-") || key === "role") element.setAttribute(key, value);
      else element[key] = value;
    }
    element.append(...children.map((child) => (child instanceof Node ? child : visible(child))));
    return element;
  }

  const SVG = "http://www.w3.org/2000/svg";
  function draw(name, attributes, tip) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (tip !== undefined) element.append(Object.assign(document.createElementNS(SVG, "title"), { textContent: visible(tip) }));
    return element;
  }

  const option = (value, name = value) => make("option", { value }, name);
  const rounded = (value) => Math.round(value * 100) / 100;
  const clock = (value) => {
    const whole = Math.round(value), hours = Math.floor(whole / 3600), rest = [Math.floor(whole / 60) % 60, whole % 60];
    return (hours ? [hours, ...rest] : rest).map((part, at) => (at ? String(part).padStart(2, "0") : part)).join(":");
  };
  // Of a video from this length on also as a player shows them.
  const LONG_VIDEO = 600;
  const seconds = (value) => (Number.isFinite(value) ? `${rounded(value)} s` + (value >= LONG_VIDEO ? ` (${clock(value)})` : "") : "?");
