// One request: what was decided on each result of its transcript, and why nothing was on the others.

import { words } from './chart.js';
import { h } from './dom.js';
import { brief, causeWords, count, plural, signed, span, time, usd } from './format.js';
import { gates as meanings } from './gates.js';
import { scroll, tag, tile } from './parts.js';

export const path = ({ id }) => 'requests/' + encodeURIComponent(id);
export const title = ({ data }) => (data ? `Request ${data.n + 1}` : 'Request');

export function render(r, { id }) {
  const back = `#/session/${encodeURIComponent(r.session)}?lineage=${encodeURIComponent(r.lineage)}&at=${encodeURIComponent(id)}`;
  const step = (key, text) => (key ? h('a', { href: '#/request/' + encodeURIComponent(key) }, text) : null);
  return h('div', { class: 'stack', 'data-key': 'request-' + id },
    h('p', { class: 'crumbs' }, h('a', { href: '#/sessions' }, 'Sessions'), h('a', { href: back }, `Session ${brief(r.session.split('-').at(-1))}`), h('span', { class: 'steps' }, step(r.previous, '← Previous'), step(r.next, 'Next →'))),
    h('h1', { tabindex: -1 }, `Request ${r.n + 1} `, h('small', null, [`turn ${r.turn}`, time(r.ts), r.model, r.mode].filter(Boolean).join(' · '))),
    figures(r),
    h('p', { class: 'sum' }, words.bar(r)),
    happened(r),
    results(r),
    facts(r));
}

function figures(r) {
  const o = r.observed;
  const m = r.modelled;
  return h('dl', { class: 'tiles' },
    tile('Outcome', '', r.known ? r.outcome : 'not told yet', [r.kind, `cache ${r.cache}`, r.gate && `gate ${r.gate}`].filter(Boolean).join(', ')),
    tile('Net', 'modelled', m ? signed(m.net_usd) : '–', m ? `${m.net_usd < 0 ? 'cost more, ' : ''}of ${usd(m.baseline_usd)} without tidemark` : 'not priced', m ? (m.net_usd < 0 ? 'bad' : 'good') : ''),
    tile('Bill', 'observed', o ? usd(o.cost_usd) : '–', o ? `${count(o.output)} tokens of output included` : 'no answer yet'),
    tile('Read from cache', 'observed', o ? count(o.cache_read) : '–', r.expected_cached ? `${count(r.expected_cached)} tokens were certain to be there` : 'tokens'),
    tile('Left out', 'estimated', count(r.estimated.removed), `tokens for the first time; ${count(r.estimated.replayed)} again`));
}

const sentence = (text) => (/[.!?]$/.test(text) ? text : text + '.');

/** The sums of moves, and losses. */
function happened(r) {
  const list = [
    ...(r.moves ?? []).map((m) => h('li', { class: 'move' }, h('b', null, `Move, ${m.kind}`), h('span', null, `from message ${m.from_message}: ${plural(m.decisions, 'decision')}, ${count(m.removed)} tokens left out (estimated). `, sentence(m.sum), m.predicted_usd > 0 && ` Predicted ${usd(m.predicted_usd)} (modelled).`))),
    ...(r.losses ?? []).map((l) => h('li', { class: 'loss' }, h('b', null, `Loss, ${causeWords(l.cause)}`), h('span', null, `${count(l.tokens)} tokens paid again, ${usd(l.usd)} above reading.`))),
    ...(r.reuses ?? []).map((u) => h('li', { class: 'reuse' }, h('b', null, `Needed again, ${u.kind}`), h('span', null, `${count(u.tokens)} tokens that ${u.filter} had left out.`))),
  ];
  return list.length > 0 && h('ul', { class: 'moments', 'aria-label': 'What happened in this request' }, list);
}

function results(r) {
  const done = r.results.filter((x) => x.filter).length;
  return h('section', { class: 'card' }, h('h2', null, 'Results ', h('small', null, `${count(done)} of ${count(r.results.length)} left out or shortened`)),
    r.parent && h('p', { class: 'muted' }, 'This conversation was forked. What had been decided before is told in the one it came from: ', h('a', { href: `#/session/${encodeURIComponent(r.session)}?lineage=${encodeURIComponent(r.parent)}` }, brief(r.parent)), '.'),
    r.results.length === 0 ? h('p', { class: 'muted' }, 'Nothing was said of results by then.') : scroll('Results', h('table', { class: 'plain results' },
      h('thead', null, h('tr', null, h('th', { scope: 'col', class: 'num' }, 'Message'), h('th', { scope: 'col' }, 'Result'), h('th', { scope: 'col' }, 'Said of it'), h('th', { scope: 'col', class: 'num' }, 'Tokens ', tag('estimated')), h('th', { scope: 'col' }, 'Original'))),
      h('tbody', null, r.results.map((x) => row(x, r))))));
}

function row(x, r) {
  const now = x.told === r.n;
  return h('tr', { class: x.filter ? 'acted' : '' },
    h('td', { class: 'num' }, count(x.message)),
    h('th', { scope: 'row' }, h('span', { class: 'tool' }, x.calls ? `Span of ${plural(x.calls.length, 'result')}` : x.tool || 'unnamed tool'), x.what && h('small', { class: 'what' }, x.what), h('small', null, [`turn ${x.turn}`, x.zone, x.held && 'held out of the cache'].filter(Boolean).join(' · '))),
    h('td', null, verdict(x), now && h('span', { class: 'chip new' }, 'new in this request'), x.in_cut && h('span', { class: 'chip' }, 'in a span that is cut'), gateList(x), x.sum && h('small', { class: 'planner' }, x.sum)),
    h('td', { class: 'num' }, x.filter ? [h('s', { 'aria-label': `${count(x.tokens)} before` }, count(x.tokens)), ' ', h('b', null, count(x.marker_tokens ?? 0))] : count(x.tokens)),
    h('td', null, x.id ? (r.content ? h('a', { href: `#/original/${encodeURIComponent(x.id)}?from=${encodeURIComponent(r.key)}` }, 'Compare', h('span', { class: 'unseen' }, ` original and marker of ${x.tool || 'this result'}`)) : h('span', { class: 'muted' }, 'not shown')) : '–'));
}

const verdict = (x) => (x.filter ? h('b', null, `${x.filter}: ${x.verb || 'left out'}`) : h('span', { class: 'muted' }, 'goes as it is'));

/** What kept each filter from it. */
function gateList(x) {
  if (!x.gates?.length) return null;
  return h('ul', { class: 'gates' }, x.gates.map((g) => h('li', { title: meanings[g.gate] ?? '' }, g.filter && h('span', null, g.filter, ' '), h('code', null, g.gate))));
}

function facts(r) {
  const list = [
    ['Request id', r.request_id], ['Trace', r.trace_id], ['Pipeline', r.pipeline], ['Group', r.group], ['Filters in force', r.filters?.join(', ')],
    ['Decisions replayed', r.replays], ['Held out of the cache', r.held], ['Breakpoints', r.breakpoints && Object.entries(r.breakpoints).map(([k, n]) => `${k} ${n}`).join(', ')],
    ['Body', `${count(r.bytes_in)} bytes in, ${count(r.bytes_out)} out, ${plural(r.messages, 'message')}`], ['Time taken', r.duration_seconds < 1 ? `${(r.duration_seconds * 1000).toFixed(1)} ms` : span(r.duration_seconds)],
    ['Gates of the request', r.gates?.filter((g) => !g.filter).map((g) => g.gate).join(', ')],
  ];
  return h('section', { class: 'card' }, h('h2', null, 'Facts'), h('dl', { class: 'facts' }, list.filter(([, v]) => v).map(([k, v]) => h('div', null, h('dt', null, k), h('dd', null, v)))));
}
