// What was left out beside what was forwarded in its place.

import { h } from './dom.js';
import { count, plural } from './format.js';

export const path = ({ id }) => 'originals/' + encodeURIComponent(id);
export const title = () => 'Original and marker';
export const once = true; // it never changes, and each look keeps it alive

export function render(o, { id, query }) {
  const r = o.result;
  const pane = (name, note, text, key) => h('section', { class: 'pane' }, h('h2', null, name, ' ', h('small', null, note)), h('pre', { tabindex: 0, role: 'region', 'aria-label': name, 'data-key': key }, text));
  return h('div', { class: 'stack', 'data-key': 'original-' + id },
    h('p', { class: 'crumbs' }, h('a', { href: '#/sessions' }, 'Sessions'), query.get('from') && h('a', { href: '#/request/' + encodeURIComponent(query.get('from')) }, 'Request')),
    h('h1', { tabindex: -1 }, 'Original and marker ', h('small', null, r ? `${r.tool || 'unnamed tool'} · message ${r.message}` : '')),
    r && h('p', { class: 'sum' }, `${r.filter}: ${r.verb}. ${count(r.tokens)} tokens became ${count(r.marker_tokens ?? 0)} (estimated).`),
    h('div', { class: 'panes' },
      pane('Original', o.truncated_bytes ? `the first ${count(o.text.length)} characters; ${plural(o.truncated_bytes, 'byte')} more` : 'whole', o.text, 'text'),
      o.marker ? pane('Marker', 'what was forwarded in its place', o.marker, 'marker') : h('section', { class: 'pane' }, h('h2', null, 'Marker'), h('p', { class: 'muted' }, 'It was made before this process began, or is no longer kept.'))),
    h('p', { class: 'muted' }, h('code', null, id)));
}
