// Where the user is. The address says all of it, so that it can be sent to somebody.
export type Page = 'overview' | 'list' | 'kinds' | 'create' | 'functions' | 'workflows' | 'storage' | 'gpu' | 'account' | 'mesh' | 'past' | 'access';

export interface Place {
  page: Page;
  kind: string;
  namespace: string;
  filter: string;
  /** The object in the panel: `namespace/name` or `name`. */
  open: string;
  tab: string;
  /** A run of the workflow that is open; of the past, a moment in milliseconds since 1970. */
  run: string;
}

const BASE = '/ui/';
const PAGES: Page[] = ['overview', 'list', 'kinds', 'create', 'functions', 'workflows', 'storage', 'gpu', 'account', 'mesh', 'past', 'access'];
const NOWHERE: Place = { page: 'overview', kind: '', namespace: '', filter: '', open: '', tab: '', run: '' };
const FIELDS = ['kind', 'namespace', 'filter', 'open', 'tab', 'run'] as const;

export function parsePlace(url: URL): Place {
  const name = url.pathname.slice(BASE.length) || 'overview';
  const place: Place = { ...NOWHERE, page: PAGES.find((page) => page === name) ?? 'overview' };
  for (const field of FIELDS) place[field] = url.searchParams.get(field) ?? '';
  return place;
}

export function addressOf(place: Place): string {
  const query = new URLSearchParams();
  for (const field of FIELDS) if (place[field]) query.set(field, place[field]);
  const path = BASE + (place.page === 'overview' ? '' : place.page);
  return query.size ? `${path}?${query}` : path;
}

class Route {
  place = $state.raw<Place>(parsePlace(new URL(location.href)));

  constructor() {
    addEventListener('popstate', () => (this.place = parsePlace(new URL(location.href))));
  }

  /** To another page; the namespace stays. */
  go(change: Partial<Place>): void {
    this.set({ ...NOWHERE, namespace: this.place.namespace, ...change }, true);
  }

  /** On this page. */
  change(change: Partial<Place>, remember = true): void {
    this.set({ ...this.place, ...change }, remember);
  }

  private set(place: Place, remember: boolean): void {
    this.place = place;
    const address = addressOf(place);
    if (remember) history.pushState(null, '', address);
    else history.replaceState(null, '', address);
  }
}

export const route = new Route();

/** For links that a plain click follows within the page; others open as the browser has it. */
export function follow(change: Partial<Place>): { href: string; onclick: (event: MouseEvent) => void } {
  const target = { ...NOWHERE, namespace: route.place.namespace, ...change };
  return {
    href: addressOf(target),
    onclick: (event) => {
      if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      route.go(change);
    },
  };
}
