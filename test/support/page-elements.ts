/** The elements of a page, as a reader without script has them: a small reader of the HTML that this product writes. */
import assert from "node:assert/strict";

const entities: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', "#39": "'", amp: "&" };
const unescaped = (text: string) => text.replace(/&(lt|gt|quot|#39|amp);/g, (_, name: string) => entities[name] ?? "");

/** Elements that have no end. */
const isVoid = (tag: string) => /^(meta|link|br|img|input)$/.test(tag);

export class PageElement {
  readonly tag: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly children: (PageElement | string)[] = [];

  constructor(tag: string, attributes: Readonly<Record<string, string>>) {
    this.tag = tag;
    this.attributes = attributes;
  }

  /** All elements below it that have the tag, and the class or the id where one is named: `li`, `li.card`, `h2#needs`. */
  all(selector: string): PageElement[] {
    const own = this.children.filter((child) => child instanceof PageElement);
    return own.flatMap((child) => [...(child.matches(selector) ? [child] : []), ...child.all(selector)]);
  }

  /** The only one of these elements. */
  one(selector: string): PageElement {
    const [first, ...others] = this.all(selector);
    assert.ok(first !== undefined && others.length === 0, `${others.length + 1} elements ${selector}`);
    return first;
  }

  matches(selector: string): boolean {
    const [, tag = "", sign = "", name = ""] = /^([a-z0-9]*)([.#]?)(.*)$/.exec(selector) ?? [];
    if (tag !== "" && tag !== this.tag) return false;
    if (sign === "#") return this.attributes.id === name;
    return sign === "" || (this.attributes.class ?? "").split(" ").includes(name);
  }

  /** The text of its elements, as it stands between the tags. */
  get text(): string {
    return this.texts.join("");
  }

  /** Its texts, one for each run between two tags. */
  get texts(): string[] {
    return this.children.flatMap((child) => (typeof child === "string" ? [child] : child.texts));
  }

  /** The values of an attribute, of its own and below it. */
  values(name: string): string[] {
    const own = this.attributes[name];
    const below = this.children.flatMap((child) => (typeof child === "string" ? [] : child.values(name)));
    return own === undefined ? below : [own, ...below];
  }
}

/** Reads a page. Throws for an element that does not end where it should. */
export function readElements(page: string): PageElement {
  const root = new PageElement("", {});
  const open = [root];
  for (const [, before = "", end, tag = "", rest = ""] of page.matchAll(
    /([^<]*)(?:<(\/?)([a-z0-9!]+)((?:[^>"]|"[^"]*")*)>)?/g,
  )) {
    const [last = root] = open.slice(-1);
    if (before !== "") last.children.push(unescaped(before));
    if (tag === "" || tag === "!doctype") continue;
    if (end === "/") {
      assert.equal(open.pop()?.tag, tag, `the end of ${tag}`);
      continue;
    }
    const attributes = [...rest.matchAll(/([a-z-]+)(?:="([^"]*)")?/g)].map(([, name = "", value = ""]) => [
      name,
      unescaped(value),
    ]);
    const element = new PageElement(tag, Object.fromEntries(attributes));
    last.children.push(element);
    if (!isVoid(tag)) open.push(element);
  }
  assert.equal(open.length, 1, "each element ends");
  return root;
}
