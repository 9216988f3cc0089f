// The bar picture: what each request read from the cache, wrote to it, sent fresh, and left out.
//
// Bars are links with one tab stop among them: arrow keys go from one to the next. What a bar says in colours and heights stands in
// its label and in the line below the picture, in words.

import { h, s } from './dom.js';
import { causeWords, compact, count, plural, signed, netWord, percent, span, time, usd } from './format.js';

const top = 76; // for marks and their words
const high = 220;
const foot = 34; // for turns and pauses
const pauseFrom = 300; // s without a request that are shown as a pause: as long as an entry lives by default

const parts = [
  ['cached', 'read from cache'],
  ['written', 'written to cache'],
  ['fresh', 'sent fresh'],
  ['again', 'left out again'],
  ['first', 'left out for the first time'],
];

/** Tokens of a request by part. What no provider has counted yet is as large as bytes tell. */
function sizes(r) {
  const e = r.estimated;
  const o = r.observed;
  const out = o ? { cached: o.cache_read, written: o.cache_write_5m + o.cache_write_1h, fresh: o.input } : { cached: e.cached, written: e.sent, fresh: e.fresh };
  return { ...out, again: e.replayed, first: e.removed };
}

/** Seconds between two requests, if they are many. */
function pauseOf(r, before) {
  const sec = before ? (new Date(r.ts) - new Date(before.ts)) / 1000 : 0;
  return sec < pauseFrom ? 0 : sec;
}

export const words = {
  /** Moves, losses and reuse of a request. */
  marks: (r) => [
    ...(r.moves ?? []).map((m) => `move (${m.kind})`),
    ...(r.losses ?? []).map((l) => `loss: ${causeWords(l.cause)}`),
    ...(r.reuses ?? []).map((u) => `needed again (${u.kind})`),
    r.undeclared && 'undeclared prefix change',
  ].filter(Boolean).join(', '),

  /** All that a bar says. */
  bar(r, before) {
    const v = sizes(r);
    const o = r.observed;
    const prompt = v.cached + v.written + v.fresh;
    const list = [`Request ${r.n + 1}, turn ${r.turn}, ${time(r.ts)}${pauseOf(r, before) ? `, after a pause of ${span(pauseOf(r, before))}` : ''}.`];
    list.push(`${count(prompt)} prompt tokens${o ? '' : ' (estimated: no answer yet)'}: ${count(v.cached)} cached, ${count(v.written)} written, ${count(v.fresh)} fresh.`);
    if (v.first || v.again) list.push(`Left out (estimated): ${[v.first && `${count(v.first)} for the first time`, v.again && `${count(v.again)} again`].filter(Boolean).join(', ')}.`);
    if (o) list.push(`Cost ${usd(o.cost_usd)}.`);
    const m = r.modelled;
    if (m) list.push(`Without tidemark ${usd(m.baseline_usd)}${m.net_usd && m.baseline_usd > 0 ? `: ${netWord(m.net_usd)} ${usd(m.net_usd)}, ${percent(Math.abs(m.net_usd) / m.baseline_usd)} of that` : ', the same'} (modelled).`);
    if (r.shadow) list.push(`Shadow: mode active would have left out ${count(r.shadow.removed)} tokens.`);
    const marks = words.marks(r);
    if (marks) list.push(marks[0].toUpperCase() + marks.slice(1) + '.');
    for (const move of r.moves ?? []) if (move.sum) list.push(`The sum of the move: ${move.sum}.`);
    return list.join(' ');
  },
};

/** The step between lines of the grid: 1, 2 or 5 times a power of ten. */
function step(most) {
  const raw = most / 4;
  const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
  return power * ([1, 2, 5].find((f) => f * power >= raw) ?? 10);
}

let picked; // key of the request that somebody pointed at last

/** Draws requests; `at` is the key of the one that is chosen. */
export function chart(rows, at) {
  const bars = rows.filter((r) => !r.side);
  if (!bars.length) return h('p', { class: 'muted' }, 'Side traffic alone: titles, probes and token counts belong to no turn.');
  const chosen = bars.find((r) => r.key === picked) ?? bars.find((r) => r.key === at) ?? bars.at(-1);
  const most = Math.max(1, ...bars.map((r) => Object.values(sizes(r)).reduce((a, b) => a + b, 0)));
  const room = Math.min(document.documentElement.clientWidth, 1320) - 130;
  const slot = Math.max(14, Math.min(46, Math.floor((100 * room) / bars.length) / 100));
  const scale = high / (Math.ceil(most / step(most)) * step(most));
  return h('figure', { class: 'chart', 'data-key': 'chart' },
    h('figcaption', null, h('h2', null, 'Tokens of each request'), legend()),
    h('div', { class: 'canvas' }, axis(most, scale),
      h('div', { class: 'plot' }, plot(bars, slot, scale, most, chosen))),
    h('p', { class: 'readout', 'data-for': chosen.key }, words.bar(chosen, bars[bars.indexOf(chosen) - 1])));
}

function legend() {
  const key = (cls, text) => h('li', null, s('svg', { width: 14, height: 14, viewBox: '0 0 14 14', 'aria-hidden': 'true' }, s('rect', { x: 1, y: 1, width: 12, height: 12, rx: 2, class: cls })), text);
  const mark = (kind, text) => h('li', null, s('svg', { width: 14, height: 14, viewBox: '-7 -7 14 14', 'aria-hidden': 'true' }, symbol(kind)), text);
  return h('ul', { class: 'legend' }, parts.map(([cls, text]) => key(cls, text)), mark('move', 'move'), mark('loss', 'cache loss'), mark('reuse', 'needed again'));
}

function axis(most, scale) {
  const lines = [];
  for (let v = 0; v * scale <= high + 1; v += step(most)) lines.push(s('text', { x: 44, y: top + high - v * scale + 4, 'text-anchor': 'end' }, compact(v)));
  return s('svg', { class: 'axis', width: 50, height: top + high + foot, 'aria-hidden': 'true' }, lines);
}

function plot(bars, slot, scale, most, chosen) {
  const width = slot * bars.length;
  const grid = [];
  for (let v = 0; v * scale <= high + 1; v += step(most)) grid.push(s('line', { x1: 0, x2: width, y1: top + high - v * scale, y2: top + high - v * scale, class: v ? 'grid' : 'base' }));
  return s('svg', { width, height: top + high + foot, role: 'group', 'aria-label': 'Requests as bars. Arrow keys go from one to the next, Enter opens it.' },
    s('defs', null, s('pattern', { id: 'hatch', width: 5, height: 5, patternUnits: 'userSpaceOnUse', patternTransform: 'rotate(45)' }, s('rect', { width: 5, height: 5, class: 'hatch-ground' }), s('line', { x1: 0, y1: 0, x2: 0, y2: 5, class: 'hatch-line' }))),
    s('g', null, turns(bars, slot)), s('g', null, grid), s('g', null, pauses(bars, slot)),
    s('g', null, bars.map((r, i) => bar(r, bars[i - 1], i * slot, slot, scale, r === chosen))),
    s('g', { class: 'marks', 'aria-hidden': 'true' }, bars.map((r, i) => marks(r, (i + 0.5) * slot))));
}

/** Bands and numbers of turns. */
function turns(bars, slot) {
  const out = [];
  for (let i = 0, n = 0; i < bars.length; n++) {
    let end = i;
    while (end < bars.length && bars[end].turn === bars[i].turn) end++;
    if (n % 2) out.push(s('rect', { x: i * slot, y: top, width: (end - i) * slot, height: high + foot, class: 'band' }));
    const wide = (end - i) * slot;
    if (wide >= 16) out.push(s('text', { x: i * slot + 4, y: top + high + 14, class: 'turn' }, wide > 60 ? `turn ${bars[i].turn}` : bars[i].turn));
    i = end;
  }
  return out;
}

function pauses(bars, slot) {
  const out = [];
  let free = 0; // where the last text ends
  for (let i = 1; i < bars.length; i++) {
    const sec = pauseOf(bars[i], bars[i - 1]);
    if (!sec) continue;
    const x = i * slot;
    const text = span(sec).replace(' min', 'm').replace(' h ', 'h');
    out.push(s('line', { x1: x, x2: x, y1: top, y2: top + high + 18, class: 'pause' }));
    if (x - 4 * text.length < free) continue;
    free = x + 4 * text.length;
    out.push(s('text', { x, y: top + high + 29, class: 'pause-text', 'text-anchor': 'middle' }, text));
  }
  return out;
}

/** A mark of its own shape, so that colour is not needed to tell them apart. */
function symbol(kind) {
  if (kind === 'move') return s('path', { d: 'M0-6 6 0 0 6-6 0Z', class: 'mark move' });
  if (kind === 'loss') return s('path', { d: 'M0-6 6 5H-6Z', class: 'mark loss' });
  return s('circle', { r: 4.5, class: 'mark reuse' });
}

function bar(r, before, x, slot, scale, on) {
  const v = sizes(r);
  const gap = slot > 20 ? 3 : 1.5;
  let y = top + high;
  const rects = parts.map(([cls]) => {
    const tall = v[cls] * scale;
    y -= tall;
    return tall > 0 && s('rect', { x: x + gap, y, width: slot - 2 * gap, height: tall, class: cls });
  });
  return s('a', { href: '#/request/' + encodeURIComponent(r.key), class: `bar${r.observed ? '' : ' open'}${on ? ' on' : ''}`, tabindex: on ? 0 : -1, 'aria-label': words.bar(r, before), 'data-key': r.key },
    s('rect', { x, y: 0, width: slot, height: top + high + foot, class: 'hit' }), rects);
}

/** What stands above a bar: a symbol for each kind of mark, and a word. */
function marks(r, x) {
  const kinds = [r.moves?.length && 'move', r.losses?.length && 'loss', r.reuses?.length && 'reuse'].filter(Boolean);
  const short = [...(r.losses ?? []).map((l) => l.cause.replace('client_', '')), ...(r.moves ?? []).map((m) => m.kind + ' move'), ...(r.reuses?.length ? ['again'] : [])];
  return [
    kinds.map((kind, i) => s('g', { transform: `translate(${x} ${top - 10 - i * 13})` }, symbol(kind))),
    short.length > 0 && s('text', { transform: `translate(${x + 4} ${top - 4 - kinds.length * 13}) rotate(-90)`, class: 'mark-text' }, short[0]),
  ];
}

/** Tells in words what a bar is about, and makes it the one that Tab comes to. */
function choose(link) {
  picked = link.dataset.key;
  const figure = link.closest('figure');
  figure.querySelector('.readout').textContent = link.getAttribute('aria-label');
  for (const other of figure.querySelectorAll('a.bar')) {
    other.classList.toggle('on', other === link);
    other.setAttribute('tabindex', other === link ? 0 : -1);
  }
}

addEventListener('focusin', (e) => {
  const link = e.target.closest?.('a.bar');
  if (link) choose(link);
});
addEventListener('pointerover', (e) => {
  const link = e.target.closest?.('a.bar');
  if (link && !link.closest('figure').contains(document.activeElement)) choose(link);
});
addEventListener('keydown', (e) => {
  const link = e.target.closest?.('a.bar');
  if (!link || e.ctrlKey || e.metaKey || e.altKey) return;
  const all = [...link.parentNode.querySelectorAll('a.bar')];
  const i = all.indexOf(link);
  const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: all.length - 1, PageDown: i + 10, PageUp: i - 10 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  all[Math.max(0, Math.min(all.length - 1, to))].focus();
});
