// The page: which view is shown, and how it stays up to date.

import { ask, Refused, token } from './api.js';
import { h, morph } from './dom.js';
import { time } from './format.js';
import * as original from './original.js';
import * as reasons from './reasons.js';
import * as request from './request.js';
import * as session from './session.js';
import * as sessions from './sessions.js';

const views = { sessions, session, request, original, reasons };
const every = 2000; // ms between questions; an answer without news is empty

const main = document.getElementById('main');
const state = document.getElementById('state');
const stateText = document.getElementById('state-text');
const say = document.getElementById('say');
const pauseButton = document.getElementById('pause');

let current; // {name, id, query, view, path, tag, data}
let timer;
let paused = false;
let asking; // AbortController of the question under way

/** Reads the address: #/view/id?query. */
function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/');
  const known = Object.hasOwn(views, name) ? name : 'sessions';
  return { name: known, view: views[known], id: decode(rest.join('/')), query: new URLSearchParams(query) };
}

function decode(s) {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
}

function open() {
  asking?.abort();
  current = parse();
  current.path = current.view.path(current);
  for (const a of document.querySelectorAll('header nav a')) {
    if (a.dataset.view === (current.name === 'reasons' ? 'reasons' : 'sessions')) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  refresh();
}

/** Asks once, shows what is new, and asks again later. */
async function refresh() {
  clearTimeout(timer);
  const shown = current;
  const first = shown.data === undefined;
  const mine = (asking = new AbortController());
  try {
    const answer = await ask(shown.path, shown.tag, mine.signal);
    if (shown !== current) return;
    if (answer) {
      shown.tag = answer.tag;
      shown.data = answer.data;
      draw(first);
    }
    tell(paused ? 'paused' : 'live');
  } catch (error) {
    if (mine.signal.aborted || shown !== current) return;
    fail(error, first);
  }
  if (!paused && shown === current && !shown.view.once) timer = setTimeout(refresh, document.hidden ? every * 15 : every);
}

/** Asks at once, unless the view is one that is asked for once: each look at an original counts. */
function again() {
  if (current.view.once && current.data) return;
  asking.abort();
  refresh();
}

function draw(first) {
  const title = current.view.title(current);
  document.title = `${title} · tidemark`;
  const active = document.activeElement;
  morph(main, [current.view.render(current.data, current)]);
  if (main.contains(active) && document.activeElement !== active) active.focus({ preventScroll: true }); // its row has moved
  current.view.shown?.(main, current);
  if (first) {
    scrollTo(0, 0);
    if (opened) main.querySelector('h1')?.focus({ preventScroll: true });
    opened = true;
  }
}
let opened = false; // a page that was just loaded keeps the focus where the browser has it

function fail(error, first) {
  if (error.status === 401 || error.status === 404) current.data = current.tag = undefined; // it is theirs no more, or is gone
  if (error instanceof Refused && error.status === 401) {
    tell('wait', 'token needed');
    const there = main.querySelector('form.token');
    morph(main, [askToken()]);
    if (first || !there) main.querySelector('input').focus(); // what had the focus is gone
    clearTimeout(timer);
    current.view = { ...current.view, once: true };
    return;
  }
  if (error instanceof Refused) {
    tell('live');
    if (first || error.status === 404) morph(main, [notice(error)]);
    return;
  }
  tell('lost', 'connection lost, trying again');
  if (first) morph(main, [h('p', { class: 'empty' }, 'The server does not answer. This page tries again by itself.')]);
}

function notice(error) {
  const title = { 403: 'Not shown here', 404: 'Not there', 410: 'Gone' }[error.status] ?? 'Not answered';
  return h('section', { class: 'empty', 'data-key': 'notice' }, h('h1', { tabindex: -1 }, title), h('p', null, error.message),
    h('p', null, h('a', { href: '#/sessions' }, 'All sessions')));
}

function askToken() {
  const wrong = token.get() !== '';
  return h('form', { class: 'token', 'data-key': 'token', 'data-action': 'token' },
    h('h1', null, 'Admin token'),
    h('p', { id: 'token-help' }, wrong ? 'The server did not take that token.' : 'This listener asks for a token: a line of the file that admin.token_file names, or a client certificate.',
      ' It is kept in this tab alone.'),
    h('label', { for: 'token' }, 'Token'),
    h('div', { class: 'row' }, h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true, 'aria-describedby': 'token-help', 'aria-invalid': wrong && 'true' }),
      h('button', { type: 'submit' }, 'Show sessions')));
}

let told = '';

/** Says how the connection is. Only a change is spoken: a live region that repeats itself is noise. */
function tell(what, words) {
  state.dataset.state = what;
  const text = words ?? (what === 'live' ? `live, ${time(Date.now())}` : 'paused');
  stateText.textContent = text;
  if (what === told) return;
  if (what === 'lost') say.textContent = 'Connection lost.';
  else if (told === 'lost') say.textContent = 'Connected again.';
  told = what;
}

const actions = {
  skip: () => main.focus(),
  pause() {
    paused = !paused;
    pauseButton.setAttribute('aria-pressed', String(paused));
    tell(paused ? 'paused' : 'live');
    if (paused) clearTimeout(timer);
    else again();
  },
};

addEventListener('hashchange', open);
addEventListener('click', (e) => {
  const action = e.target.closest('button[data-action]')?.dataset.action;
  if (action && actions[action]) actions[action]();
});
addEventListener('submit', (e) => {
  if (e.target.dataset.action !== 'token') return;
  e.preventDefault();
  token.set(e.target.querySelector('input').value.trim());
  open();
});
addEventListener('visibilitychange', () => !document.hidden && !paused && again());
let resized;
addEventListener('resize', () => {
  clearTimeout(resized);
  resized = setTimeout(() => current?.data && draw(false), 150);
});

open();
