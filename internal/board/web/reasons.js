// Why money was lost, and why nothing was done: losses by cause, gates by filter.

import { h } from './dom.js';
import { count, plural, time, usd } from './format.js';
import { gates as meanings } from './gates.js';
import { lossTable, scroll, tag, tiles } from './parts.js';

export const path = () => 'overview';
export const title = () => 'Reasons';

export function render(o) {
  return h('div', { class: 'stack', 'data-key': 'reasons' },
    h('h1', { tabindex: -1 }, 'Reasons'),
    tiles(o.totals, o.own_spend),
    h('div', { class: 'two' }, lossTable(o.totals.losses, 'Cache losses by cause'), sum(o)),
    gateTable(o.gates, 'Why results stayed as they were'));
}

/** How the net is made up: the parts add up to it. */
function sum(o) {
  const { modelled: m, observed } = o.totals;
  const line = (name, v, note, kind) => h('tr', { class: kind }, h('th', { scope: 'row' }, name, note && h('small', null, note)), h('td', { class: 'num' }, (v < 0 ? '−' : '') + usd(v)));
  return h('section', { class: 'card' }, h('h2', null, 'How the net is made up ', tag('modelled')),
    h('table', { class: 'plain' }, h('tbody', null,
      line('Left out', m.removal_usd, 'at the price that it would have been billed at'),
      line('Cache levers', m.levers_usd, 'what moved and longer breakpoints came to'),
      line('Needed again', -m.reuse_usd, 'what was left out and had to be fetched once more'),
      o.own_spend.calls > 0 && line('Own calls', -o.own_spend.usd, plural(o.own_spend.calls, 'summary', 'summaries')),
      line('Net', m.net_usd - o.own_spend.usd, `of ${usd(m.baseline_usd)} that ${plural(m.answers, 'answer')} would have cost`, 'total'))),
    h('p', { class: 'muted' }, `The provider’s cache itself saves ${usd(m.provider_usd)} on what it reads. That is not tidemark’s, and not in the net. The bill is ${usd(observed.cost_usd)}.`),
    o.config?.result === 'error' && h('p', { class: 'alarm' }, h('b', null, 'The config could not be loaded'), ` at ${time(o.config.ts)}; the last good one is in use. `, (o.config.errors ?? []).join(' ')));
}

export function gateTable(gates, heading) {
  return h('section', { class: 'card' }, h('h2', null, heading),
    gates.length === 0 ? h('p', { class: 'muted' }, 'No gate was in the way.') : [
      h('p', { class: 'muted' }, 'A gate is a named reason for not acting. Results are counted again in every request that has them.'),
      scroll(heading, h('table', { class: 'plain' },
        h('thead', null, h('tr', null, h('th', { scope: 'col' }, 'Gate'), h('th', { scope: 'col' }, 'Of'), h('th', { scope: 'col', class: 'num' }, 'Results'), h('th', { scope: 'col', class: 'num' }, 'Requests'))),
        h('tbody', null, gates.slice(0, 60).map((g) => h('tr', null,
          h('th', { scope: 'row' }, h('code', null, g.gate), h('small', null, meanings[g.gate] ?? '')),
          h('td', null, g.filter || 'the request'), h('td', { class: 'num' }, g.filter ? count(g.n) : '–'), h('td', { class: 'num' }, count(g.requests)))))))]);
}
