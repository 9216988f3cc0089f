// All sessions in a table, the worst first.

import { h } from './dom.js';
import { brief, compact, count, moment, plural, usd } from './format.js';
import { lossChips, meter, net, tag, tiles } from './parts.js';

const limit = 50;
const sorts = { worst: 'worst net first', recent: 'most recent first', cost: 'dearest first', losses: 'most lost first' };

const sortOf = (query) => (Object.hasOwn(sorts, query.get('sort') ?? '') ? query.get('sort') : 'worst');
const offsetOf = (query) => Math.max(0, parseInt(query.get('offset') ?? '0', 10) || 0);

export const path = ({ query }) => `sessions?sort=${sortOf(query)}&offset=${offsetOf(query)}&limit=${limit}`;
export const title = () => 'Sessions';

export function render(data, { query }) {
  const sort = sortOf(query);
  return h('div', { class: 'stack', 'data-key': 'sessions' },
    h('h1', { tabindex: -1 }, 'Sessions ', h('small', null, data.sessions ? sorts[sort] : '')),
    tiles(data.totals, data.own_spend),
    data.config?.result === 'error' && h('p', { class: 'alarm' }, h('b', null, 'The config could not be loaded.'), ' The last good one is in use. ', h('a', { href: '#/reasons' }, 'More')),
    data.sessions === 0 ? empty() : [h('nav', { class: 'sorts', 'aria-label': 'Order of sessions' }, Object.entries(sorts).map(([key, words]) =>
      h('a', { href: `#/sessions?sort=${key}`, 'aria-current': key === sort && 'true' }, words))), table(data, sort), pager(data, sort)]);
}

function empty() {
  return h('section', { class: 'empty' }, h('h2', null, 'No session yet'),
    h('p', null, 'Sessions appear here with their first request. If agents are at work and this stays empty, Envoy does not send their requests here: ',
      h('code', null, 'tidemark doctor'), ' says why.'));
}

function head(words, sort, key, note) {
  const on = sort === key;
  return h('th', { scope: 'col', role: 'columnheader', class: key !== 'recent' && 'num', 'aria-sort': on && (key === 'worst' ? 'ascending' : 'descending') }, words, note && [' ', note]);
}

function table(data, sort) {
  return h('table', { class: 'sessions', role: 'table', 'aria-label': `Sessions, ${sorts[sort]}` },
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' },
      head('Session', sort, 'recent'), head('Net, share of cost without tidemark', sort, 'worst', tag('modelled')),
      head('Read, of prompt tokens', sort, '', tag('observed')),
      h('th', { scope: 'col', role: 'columnheader' }, 'Losses by cause ', tag('observed')),
      head('Left out', sort, '', tag('estimated')), head('Bill', sort, 'cost', tag('observed')))),
    h('tbody', { role: 'rowgroup' }, data.list.map((one) => row(one))));
}

function row(one) {
  const cell = (name, cls, ...children) => h('td', { role: 'cell', class: cls, 'data-name': name }, children);
  const meta = [one.route, one.model, one.mode !== 'active' && one.mode].filter(Boolean).join(' · ');
  return h('tr', { role: 'row', 'data-key': one.id },
    h('th', { scope: 'row', role: 'rowheader' }, h('a', { href: '#/session/' + encodeURIComponent(one.id) }, h('code', null, brief(one.session))),
      h('small', null, meta), h('small', null, `${plural(one.requests, 'request')}, last ${moment(one.last)}`)),
    cell('Net', 'num', net(one.modelled)),
    cell('Read from cache', 'num', meter(one.observed.read_of_prompt)),
    cell('Losses', '', lossChips(one.losses)),
    cell('Left out', 'num', one.shadow.requests ? [compact(one.shadow.removed), ' ', tag('shadow')] : compact(one.estimated.removed)),
    cell('Bill', 'num', usd(one.observed.cost_usd)));
}

function pager(data, sort) {
  const from = data.offset;
  const to = from + data.list.length;
  const link = (words, offset) => h('a', { href: `#/sessions?sort=${sort}&offset=${offset}` }, words);
  return h('nav', { class: 'pager', 'aria-label': 'Pages of sessions' },
    h('span', null, data.list.length ? `${count(from + 1)}–${count(to)} of ${plural(data.sessions, 'session')}` : `none of ${plural(data.sessions, 'session')}`,
      data.dropped_sessions > 0 && `; ${count(data.dropped_sessions)} older ones are in the totals alone`),
    from > 0 && link('Previous', Math.max(0, from - limit)), to < data.sessions && link('Next', from + limit));
}
