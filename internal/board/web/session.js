// One session, request by request.

import { chart, words } from './chart.js';
import { h } from './dom.js';
import { brief, causeWords, compact, count, plural, signed, time, usd } from './format.js';
import { net, scroll, tag, tiles } from './parts.js';
import { gateTable } from './reasons.js';

export const path = ({ id, query }) => 'sessions/' + encodeURIComponent(id) + (query.has('lineage') ? '?lineage=' + encodeURIComponent(query.get('lineage')) : '');
export const title = ({ data }) => `Session ${brief(data?.session.session)}`;

export function render(data, { id, query }) {
  const one = data.session;
  const rows = data.requests;
  return h('div', { class: 'stack', 'data-key': 'session-' + id },
    h('p', { class: 'crumbs' }, h('a', { href: '#/sessions' }, 'Sessions')),
    h('h1', { tabindex: -1 }, 'Session ', h('code', null, brief(one.session)), ' ', h('small', null, [one.route, one.model, one.mode].filter(Boolean).join(' · '))),
    tiles(one),
    data.lineages.length > 1 && lineages(data, id),
    rows.length === 0 ? h('p', { class: 'empty' }, 'What is kept of single requests has gone to make room for sessions that were active later. The sums stay.') : [
      chart(rows, query.get('at')),
      h('div', { class: 'two' }, moments(rows), gateTable(data.gates.slice(0, 12), 'Why results stayed as they were')),
      asTable(rows)]);
}

export function shown(main, { query }) {
  // The newest requests are at the right, where work goes on; where somebody has scrolled is theirs.
  const plot = main.querySelector('.plot');
  if (!plot || plot.dataset.placed === String(plot.clientWidth)) return;
  plot.dataset.placed = plot.clientWidth;
  const at = query.get('at') && plot.querySelector('.on');
  plot.scrollLeft = at ? at.getBBox().x - plot.clientWidth / 2 : plot.scrollWidth;
}

const nameOf = (l) => (l.id === '' ? 'side traffic' : brief(l.id));

function lineages(data, id) {
  return h('nav', { class: 'lineages', 'aria-label': 'Conversations of this session' }, h('h2', null, 'Conversations'), h('ul', null, data.lineages.map((l) =>
    h('li', null, h('a', { href: `#/session/${encodeURIComponent(id)}?lineage=${encodeURIComponent(l.id)}`, 'aria-current': l.id === data.lineage && 'true' }, nameOf(l)),
      h('small', null, plural(l.requests, 'request'), l.parent && `, forked from ${brief(l.parent)}`), net(l.modelled)))));
}

/** What happened, in words: moves, losses, what was needed again. */
function moments(rows) {
  const list = [];
  for (const r of rows) {
    const add = (kind, title, text) => list.push(h('li', { class: kind }, h('a', { href: '#/request/' + encodeURIComponent(r.key) }, `request ${r.n + 1}`), h('time', null, time(r.ts)), h('b', null, title), h('span', null, text)));
    for (const m of r.moves ?? []) add('move', `move, ${m.kind}`, `${plural(m.decisions, 'decision')}, ${count(m.removed)} tokens left out (estimated). ${m.sum}`);
    for (const l of r.losses ?? []) add('loss', `loss, ${causeWords(l.cause)}`, `${count(l.tokens)} tokens paid again, ${usd(l.usd)} above reading${l.filter ? ', by ' + l.filter : ''}${l.source === 'diagnostics' ? '; the provider said so' : ''}`);
    for (const u of r.reuses ?? []) add('reuse', `needed again, ${u.kind}`, `${count(u.tokens)} tokens that ${u.filter} had left out, ${plural(u.turns_later, 'turn')} later`);
  }
  list.reverse();
  return h('section', { class: 'card' }, h('h2', null, 'Moves, losses and what was needed again'),
    list.length ? h('ol', { class: 'moments' }, list.slice(0, 100)) : h('p', { class: 'muted' }, 'Nothing but growth: every request read what the ones before it had written.'));
}

/** The picture as a table. */
function asTable(rows) {
  const heads = [['Request'], ['Turn'], ['Time'], ['Cached', 'observed'], ['Written', 'observed'], ['Fresh', 'observed'], ['Left out', 'estimated'], ['Cost', 'observed'], ['Net', 'modelled'], ['Moves, losses']];
  return h('details', { class: 'card' }, h('summary', null, 'The same as a table'), scroll('Requests as a table', h('table', { class: 'plain dense' },
    h('thead', null, h('tr', null, heads.map(([t, origin], i) => h('th', { scope: 'col', class: i !== 9 && i && 'num' }, t, origin && [' ', tag(origin)])))),
    h('tbody', null, rows.map((r) => {
      const o = r.observed;
      const n = (v) => h('td', { class: 'num' }, v);
      return h('tr', { 'data-key': r.key }, h('th', { scope: 'row' }, h('a', { href: '#/request/' + encodeURIComponent(r.key) }, count(r.n + 1))), n(count(r.turn)), n(time(r.ts)),
        n(o ? count(o.cache_read) : '–'), n(o ? count(o.cache_write_5m + o.cache_write_1h) : '–'), n(o ? count(o.input) : '–'),
        n(compact(r.estimated.removed + r.estimated.replayed)), n(o ? usd(o.cost_usd) : '–'), n(r.modelled ? signed(r.modelled.net_usd) : '–'), h('td', null, words.marks(r) || '–'));
    })))));
}
