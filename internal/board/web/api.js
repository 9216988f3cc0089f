// Asking the server. The token stays in this tab: it is in no cookie and no address.

const store = 'tidemark-token';
const patience = 15000; // ms: a server that was cut off may never say so

export const token = {
  get: () => sessionStorage.getItem(store) ?? '',
  set: (t) => sessionStorage.setItem(store, t),
  clear: () => sessionStorage.removeItem(store),
};

export class Refused extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

/**
 * Asks for a path below /v1/board/. Returns null if nothing changed since `tag`, else {data, tag}.
 * Throws Refused for what the server does not give, and something else where it cannot be reached or does not answer.
 */
export async function ask(path, tag, signal) {
  const headers = {};
  if (/[^\x21-\x7e]/.test(token.get())) throw new Refused(401, 'token', 'No token has such characters.'); // nor can a header
  if (token.get()) headers.Authorization = 'Bearer ' + token.get();
  if (tag) headers['If-None-Match'] = tag;
  const res = await fetch('/v1/board/' + path, { headers, cache: 'no-store', signal: AbortSignal.any([signal, AbortSignal.timeout(patience)]), redirect: 'error' });
  if (res.status === 304) return null;
  if (res.ok) return { data: await res.json(), tag: res.headers.get('ETag') };
  let error = {};
  try {
    error = (await res.json()).error ?? {};
  } catch {
    // A proxy in between answers in its own way.
  }
  throw new Refused(res.status, error.type ?? '', error.message ?? `The server answered ${res.status}.`);
}
