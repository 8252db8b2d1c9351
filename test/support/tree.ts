/** The source tree, for tests that hold it to its own rules. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const root = new URL("../..", import.meta.url).pathname;

export interface Source {
  readonly path: string;
  readonly text: string;
}

export function read(...patterns: string[]): Source[] {
  const paths = globSync(patterns, { cwd: root, exclude: (name) => /(^|\/)(node_modules|dist|tmp|\.git)$/.test(name) });
  return paths.sort().map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

export const product = read("functions/**/*.ts", "triggers/**/*.ts", "knative/**/*.ts");
export const functions = product.filter(({ path }) => path.startsWith("functions/"));
export const tests = read("test/**/*.ts");
export const sources = [...product, ...tests];

export function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");
}

export function importsOf({ text }: Source): string[] {
  return [...text.matchAll(/(?:\bfrom|\bimport|\bimport\()\s*"([^"]+)"/g)].map(([, specifier]) => specifier ?? "");
}

/** Fails with a list of every place that breaks a rule, and not only the first. */
export function none(offences: readonly string[], rule: string): void {
  assert.equal(offences.length, 0, `${rule}:\n  ${offences.join("\n  ")}`);
}

/** The places where a pattern occurs in code, and not in comments. */
export function matches(where: readonly Source[], pattern: RegExp): string[] {
  return where.flatMap(({ path, text }) =>
    [...withoutComments(text).matchAll(new RegExp(pattern, "gm"))].map(([found]) => `${path}: ${found.trim()}`),
  );
}

/** Where an import leads, from the root of the tree; undefined for a package. */
export function leadsTo({ path }: Source, specifier: string): string | undefined {
  return specifier.startsWith(".") ? join(dirname(path), specifier) : undefined;
}

/** The imports of a source that lead into the tree. */
export const waysOf = (source: Source): string[] =>
  importsOf(source).flatMap((specifier) => leadsTo(source, specifier) ?? []);
