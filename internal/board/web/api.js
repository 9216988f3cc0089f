// Asking the server. The token stays in this tab: it is in no cookie and no address.

const store = 'tidemark-token';

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
 * Throws Refused for what the server does not give, and TypeError where it cannot be reached.
 */
export async function ask(path, tag, signal) {
  const headers = {};
  if (token.get()) headers.Authorization = 'Bearer ' + token.get();
  if (tag) headers['If-None-Match'] = tag;
  const res = await fetch('/v1/board/' + path, { headers, cache: 'no-store', signal, redirect: 'error' });
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
