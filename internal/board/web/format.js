// Numbers in words and figures. Every percent is shown with what it is a share of; that is the caller's text.

const whole = new Intl.NumberFormat('en-US');
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumSignificantDigits: 3 });

export const count = (n) => whole.format(n);
export const compact = (n) => (Math.abs(n) < 1000 ? whole.format(n) : short.format(n).replace('K', 'k'));

/** USD without a sign, with as many digits as small sums need. */
export function usd(v) {
  const a = Math.abs(v);
  const digits = a === 0 || a >= 1 ? 2 : a >= 0.1 ? 3 : 4;
  return '$' + a.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** USD with a sign. */
export const signed = (v) => (v > 0 ? '+' : v < 0 ? '−' : '') + usd(v);

export const percent = (v) => (100 * v).toFixed(Math.abs(v) >= 0.0995 && Math.abs(v) < 0.9995 ? 0 : 1).replace(/^-/, '−') + ' %';

/** What a net comes to, as a word: colour alone says nothing to some. */
export const netWord = (v) => (v > 0 ? 'saved' : v < 0 ? 'cost more' : 'even');

export const plural = (n, one, many = one + 's') => `${count(n)} ${n === 1 ? one : many}`;

export const time = (ts) => new Date(ts).toLocaleTimeString('en-GB');

/** A moment, with its day unless that is today. It is never a span until now: an answer without news is not drawn anew, and would go on saying "just now". */
export function moment(ts) {
  const at = new Date(ts);
  const clock = at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
  if (at.toDateString() === new Date().toDateString()) return clock;
  return `${at.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })}, ${clock}`;
}

export function span(sec) {
  if (sec < 60) return `${Math.round(sec)} s`;
  if (sec < 3600) return `${Math.round(sec / 60)} min`;
  if (sec < 48 * 3600) return `${Math.floor(sec / 3600)} h ${Math.floor((sec % 3600) / 60)} min`;
  return `${Math.round(sec / 86400)} days`;
}

/** The start of a hash, as people compare them. */
export const brief = (hash) => (hash || '').slice(0, 8) || '–';

/** What a hit rate, a cause and a kind of zone mean, in a few words. */
export const causes = {
  tidemark: 'a move or a hold of tidemark’s own',
  provider: 'the entry should have been there, and was not',
  ttl: 'a pause outlived the cache entry',
  client_history: 'the client changed messages that it had sent',
  client_tools: 'the client changed its tools',
  client_system: 'the client changed its system prompt',
  client_model: 'the client changed the model',
  first: 'nothing had been written yet',
  unknown: 'no cause could be shown',
};
export const causeWords = (c) => ({ ttl: 'lapsed (ttl)' })[c] ?? c.replace('_', ' ');
