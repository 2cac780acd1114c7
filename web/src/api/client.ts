// Requests to the Kubernetes API as the user who is logged in. A token lives in the page's memory alone: a reload asks
// for it again. A cookie, where there is one, is the browser's own business.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** What the server said no with: its own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly reason = '',
  ) {
    super(message);
  }
}

let token = '';
let onUnauthorized: () => void = () => {};

export function setToken(value: string): void {
  token = value;
}

export function whenUnauthorized(action: () => void): void {
  onUnauthorized = action;
}

export interface Call {
  method?: string;
  body?: string;
  type?: string;
  accept?: string;
  signal?: AbortSignal;
}

/** The answer as it comes; throws what the server says if it is no success. */
export async function send(path: string, call: Call = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: call.accept ?? 'application/json' };
  const method = call.method ?? 'GET';
  if (token) headers['Authorization'] = `Bearer ${token}`;
  if (method !== 'GET') headers['X-Minik8s-UI'] = '1';
  if (call.body !== undefined) headers['Content-Type'] = call.type ?? 'application/json';
  const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (call.body !== undefined) init.body = call.body;
  if (call.signal) init.signal = call.signal;
  const response = await fetchTwice(path, init);
  if (response.ok) return response;
  const error = await asError(response);
  if (error.status === 401) onUnauthorized();
  throw error;
}

/** A laptop that changes networks loses its connections: reading is tried once more. */
async function fetchTwice(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, init);
  } catch (error) {
    if (init.method !== 'GET' || init.signal?.aborted) throw error;
    return await fetch(path, init);
  }
}

export async function getJson<T>(path: string, call: Call = {}): Promise<T> {
  return (await (await send(path, call)).json()) as T;
}

async function asError(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const status = JSON.parse(text) as { message?: string; reason?: string };
    return new ApiError(response.status, status.message || response.statusText, status.reason);
  } catch {
    return new ApiError(response.status, text || `${response.status} ${response.statusText}`);
  }
}

/** A WebSocket of the API. Browsers send no headers there: a token goes where Kubernetes looks for it. */
export function openSocket(path: string, protocol: string): WebSocket {
  const url = new URL(path, location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  const protocols = [protocol];
  if (token) {
    const encoded = btoa(token).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
    protocols.push(`base64url.bearer.authorization.k8s.io.${encoded}`);
  }
  return new WebSocket(url, protocols);
}
