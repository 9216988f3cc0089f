// What several views show in the same way.

import { h } from './dom.js';
import { causes, causeWords, compact, count, netWord, percent, plural, signed, usd } from './format.js';

export const tag = (origin) => h('span', { class: `tag ${origin}` }, origin);

/** One figure with its name, its origin and a line that says what it is a share of. */
export function tile(name, origin, value, note, more = '') {
  return h('div', { class: `tile ${more}` }, h('dt', null, name), h('dd', null, h('strong', null, value), note && h('span', { class: 'note' }, note), origin && tag(origin)));
}

/** The tiles that sum up some requests. */
export function tiles(f, own) {
  const { observed: o, modelled: m, estimated: e } = f;
  const spent = own?.usd ?? 0;
  const net = m.net_usd - spent;
  const tone = m.answers ? (net < 0 ? 'bad' : 'good') : '';
  const lost = f.losses.reduce((sum, l) => sum + l.usd, 0);
  const lostN = f.losses.reduce((sum, l) => sum + l.n, 0);
  const prompt = o.input + o.cache_read + o.cache_write_5m + o.cache_write_1h;
  const share = m.baseline_usd > 0 ? `${percent(Math.abs(net) / m.baseline_usd)} of ${usd(m.baseline_usd)} without tidemark` : 'no answer was priced yet';
  return h('dl', { class: 'tiles' },
    tile('Net', 'modelled', m.answers ? `${netWord(net)} ${usd(net)}` : '–', spent ? `${share}, ${usd(spent)} of own calls taken off` : share, `wide ${tone}`),
    tile('Bill', 'observed', usd(o.cost_usd), `${plural(o.answers, 'answer')} of ${plural(f.requests, 'request')}`),
    tile('Read from cache', 'observed', o.read_of_prompt === undefined ? '–' : percent(o.read_of_prompt), `of ${compact(prompt)} prompt tokens`),
    tile('Lost from cache', 'observed', usd(lost), lostN ? `${plural(lostN, 'loss', 'losses')}, above the price of reading` : 'no losses', lostN ? 'warn' : ''),
    tile('Left out', 'estimated', compact(e.removed), e.reuses ? `tokens at first removal; ${compact(e.reused)} needed again` : 'tokens, counted once each'),
    f.shadow.requests > 0 && tile('Would leave out', 'shadow', compact(f.shadow.removed), `tokens, in ${plural(f.shadow.requests, 'request')} of mode shadow`),
    f.undeclared_prefix_changes > 0 && tile('Undeclared changes', '', count(f.undeclared_prefix_changes), 'prefix changes without a move: a fault, please report it', 'bad'));
}

/** Net with its sign, its word and its share. */
export function net(m) {
  if (!m.answers) return h('span', { class: 'muted' }, 'not priced');
  const tone = m.net_usd < 0 ? 'bad' : m.net_usd > 0 ? 'good' : 'muted';
  return h('span', { class: `net ${tone}` }, h('strong', null, signed(m.net_usd)), ' ',
    h('small', null, !m.net_of_baseline ? netWord(m.net_usd) : `${netWord(m.net_usd)} ${percent(Math.abs(m.net_of_baseline))}`));
}

/** A share as a small bar with its number. */
export function meter(share) {
  if (share === undefined) return h('span', { class: 'muted' }, '–');
  const cells = Math.round(share * 20);
  return h('span', { class: 'meter' }, h('span', { class: `fill f${cells}`, 'aria-hidden': 'true' }), percent(share));
}

export function lossChips(losses) {
  if (!losses.length) return h('span', { class: 'muted' }, 'none');
  return h('ul', { class: 'chips' }, losses.map((l) => h('li', { class: l.cause === 'tidemark' ? 'chip own' : 'chip', title: `${causes[l.cause] ?? ''}: ${count(l.tokens)} tokens, ${usd(l.usd)}` },
    causeWords(l.cause), h('b', null, count(l.n)))));
}

/** Losses by cause as bars. */
export function lossTable(losses, heading) {
  const most = Math.max(...losses.map((l) => l.usd), 1e-12);
  return h('section', { class: 'card' }, h('h2', null, heading, ' ', tag('observed')),
    losses.length === 0 ? h('p', { class: 'muted' }, 'Nothing that was paid for had to be paid for again.') : scroll(heading, h('table', { class: 'plain' },
      h('thead', null, h('tr', null, ['Cause', 'Times', 'Tokens', 'Paid above reading'].map((t, i) => h('th', { scope: 'col', class: i && 'num' }, t)))),
      h('tbody', null, losses.map((l) => h('tr', null,
        h('th', { scope: 'row' }, causeWords(l.cause), h('small', null, causes[l.cause] ?? ''), h('span', { class: 'rule', 'aria-hidden': 'true' }, h('span', { class: `f${Math.max(1, Math.round((l.usd / most) * 20))}` }))),
        h('td', { class: 'num' }, count(l.n)), h('td', { class: 'num' }, compact(l.tokens)), h('td', { class: 'num' }, usd(l.usd))))))));
}

/** A table that may be wider than the page. It can be scrolled with the keyboard. */
export const scroll = (name, table) => h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name }, table);
