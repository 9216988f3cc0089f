// Elements are made here and nowhere else, from strings that are only ever text: nothing that a client sent becomes markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    el.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return el;
}

/** Makes an HTML element. Properties become attributes; false and null leave them out. */
export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);

/** Makes an SVG element. */
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/**
 * Makes the children of `old` equal to `nodes` and keeps what is the same, so that focus, scrolling and selection stay. What has a
 * data-key is the same where the key is.
 */
export function morph(old, nodes) {
  const fresh = [...nodes];
  const keys = new Set(fresh.map(keyOf).filter(Boolean));
  const kept = new Map();
  for (const child of [...old.childNodes]) {
    const key = keyOf(child);
    if (key && !keys.has(key)) child.remove();
    else if (key) kept.set(key, child);
  }
  fresh.forEach((node, i) => {
    const at = old.childNodes[i] ?? null;
    const have = keyOf(node) ? kept.get(keyOf(node)) : at;
    if (have && have !== at && have.nodeName === node.nodeName) old.insertBefore(have, at);
    if (!have || !same(have, node)) {
      if (at && !keyOf(at)) at.replaceWith(node);
      else old.insertBefore(node, at);
    } else if (have.nodeType === Node.TEXT_NODE) {
      if (have.data !== node.data) have.data = node.data;
    } else {
      attributes(have, node);
      morph(have, [...node.childNodes]);
    }
  });
  while (old.childNodes.length > fresh.length) old.lastChild.remove();
}

const keyOf = (node) => node.dataset?.key ?? '';
const same = (a, b) => a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

// What a person did to an element on the page is not in the new one.
const ours = new Set(['open', 'data-placed']);

function attributes(have, node) {
  for (const { name } of [...have.attributes]) {
    if (!node.hasAttribute(name) && !ours.has(name)) have.removeAttribute(name);
  }
  for (const { name, value } of [...node.attributes]) {
    if (have.getAttribute(name) !== value && !(ours.has(name) && have.hasAttribute(name))) have.setAttribute(name, value);
  }
}
