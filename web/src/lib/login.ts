// How the page comes by its rights: a one-time link, a session that is still open, or a pasted token.
import { ApiError, getJson, send, setToken } from '../api/client';

export type Outcome = 'in' | 'out' | 'link-used';

const ANONYMOUS = 'system:anonymous';

/** With the code of the address, which is removed from it at once; else with the session that there may be. */
export async function logInAtStart(): Promise<Outcome> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, '', location.pathname + location.search);
    try {
      await send('/ui/session', { method: 'POST', body: JSON.stringify({ code }) });
    } catch (error) {
      if (error instanceof ApiError) return 'link-used';
      throw error;
    }
  }
  return (await isKnown()) ? 'in' : 'out';
}

export async function logInWithToken(token: string, readOnly: boolean): Promise<boolean> {
  setToken(token);
  if (!(await isKnown())) {
    setToken('');
    return false;
  }
  if (await exchange(readOnly)) setToken('');
  return true;
}

/** The token for a cookie, which a reload outlives and no script can read. A door without sessions keeps the token here. */
async function exchange(readOnly: boolean): Promise<boolean> {
  try {
    const made = await getJson<{ code: string }>('/ui/sessions', { method: 'POST', body: JSON.stringify({ readOnly }) });
    await send('/ui/session', { method: 'POST', body: JSON.stringify({ code: made.code }) });
    return true;
  } catch (error) {
    // What was to be narrowed must not become wide.
    if (readOnly) throw error;
    return false;
  }
}

export async function logOut(): Promise<void> {
  setToken('');
  await send('/ui/session', { method: 'DELETE' }).catch(() => undefined);
}

async function isKnown(): Promise<boolean> {
  const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' });
  const path = '/apis/authentication.k8s.io/v1/selfsubjectreviews';
  try {
    const review = await getJson<{ status?: { userInfo?: { username?: string } } }>(path, { method: 'POST', body });
    return review.status?.userInfo?.username !== ANONYMOUS;
  } catch (error) {
    if (error instanceof ApiError && (error.status === 401 || error.status === 403)) return false;
    throw error;
  }
}
