// The terminal writes its colours into <style> elements, which the content security policy forbids. While it sets itself
// up, it gets elements whose text goes into constructed style sheets instead, and those are allowed.
export function withoutStyleElements(work: () => void): { dispose: () => void } {
  const sheets: CSSStyleSheet[] = [];
  const create = Document.prototype.createElement.bind(document);
  const value = (tag: string, options?: ElementCreationOptions): HTMLElement => {
    if (tag.toLowerCase() !== 'style') return create(tag, options);
    const sheet = new CSSStyleSheet();
    sheets.push(sheet);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    return Object.defineProperties(create('template'), {
      sheet: { value: sheet },
      textContent: { get: () => '', set: (text: string) => sheet.replaceSync(text) },
    });
  };
  Object.defineProperty(document, 'createElement', { value, configurable: true });
  try {
    work();
  } finally {
    Reflect.deleteProperty(document, 'createElement');
  }
  return {
    dispose: () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.includes(sheet));
    },
  };
}
