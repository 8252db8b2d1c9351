/** Replaces `node:test` while mutants are tried: tests are declared, and run later, each as often as needed. */
import { type Body, declaring } from "./registry.ts";

type Options = { readonly skip?: unknown; readonly todo?: unknown };
type Declared = [name: string, body: Body] | [name: string, options: Options, body: Body];

function partsOf(declared: Declared): { readonly name: string; readonly options: Options; readonly body: Body } {
  const [name, ...rest] = declared;
  const body = rest.at(-1) as Body;
  return { name, options: rest.length > 1 ? (rest[0] as Options) : {}, body };
}

function declareTest(...declared: Declared): void {
  const { name, options, body } = partsOf(declared);
  if (!options.skip && !options.todo) declaring.test(name, body);
}

function declareSuite(...declared: Declared): void {
  const { name, options, body } = partsOf(declared);
  if (!options.skip && !options.todo) declaring.suite(name, body);
}

export const test = declareTest;
export const it = declareTest;
export const describe = declareSuite;
export const suite = declareSuite;
export const before = (body: Body) => declaring.hook("before", body);
export const after = (body: Body) => declaring.hook("after", body);
