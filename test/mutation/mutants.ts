/** Finds the possible changes of a source, and gives each an id that survives moved lines. */
import { createHash } from "node:crypto";
import { stripTypeScriptTypes } from "node:module";
import { type AnyNode, type Node, parse } from "acorn";
import { isWordingOnly, type MutationSite, placesOf, type Range } from "./mutators.ts";

export interface Mutant {
  /** Hash of the file, the function, the text, its replacement and the number of equal changes before; not of the line. */
  readonly id: string;
  readonly file: string;
  readonly line: number;
  /** The function or constant that contains it. */
  readonly within: string;
  readonly original: string;
  readonly replacement: string;
}

/** A place in the source, with a mutant for each of its replacements in order. */
export interface MutatedPlace extends MutationSite {
  readonly mutants: readonly Mutant[];
}

export interface MutatedSource {
  readonly file: string;
  /** The source without its types. Every offset is the same as in the source. */
  readonly script: string;
  /** Places of one range follow one another, the outermost first. */
  readonly places: readonly MutatedPlace[];
  readonly mutants: readonly Mutant[];
  /** The bodies of its loops, whose turns are counted, because a mutant may never leave one. */
  readonly loops: readonly Range[];
}

/** Parses a TypeScript source and lists its mutants. Throws SyntaxError. */
export function findMutants(file: string, text: string): MutatedSource {
  const script = stripTypeScriptTypes(text, { mode: "strip" });
  if (script.length !== text.length) throw new SyntaxError(`${file}: the types of it cannot be taken out in place`);
  const tree = parse(script, { ecmaVersion: "latest", sourceType: "module" });
  const seen = new Map<string, number>();
  const lines = lineStarts(text);
  const places: MutatedPlace[] = [];
  const loops: Range[] = [];
  walk(tree as AnyNode, [], (node, ancestors) => {
    if (/^(For|While|DoWhile)/.test(node.type) && "body" in node) loops.push(node.body as Node);
    for (const place of placesOf(node, ancestors, script)) {
      const original = text.slice(place.start, place.end).replace(/\s+/g, " ");
      const within = nameOf([...ancestors, node]);
      const mutants = place.replacements.map((replacement): Mutant => {
        const change = [file, within, original, replacement.replace(/\s+/g, " ")].join("\n");
        const nth = seen.get(change) ?? 0;
        seen.set(change, nth + 1);
        const id = createHash("sha256").update(`${change}\n${nth}`).digest("hex").slice(0, 10);
        const line = lines.findLastIndex((start) => start <= place.start) + 1;
        return { id, file, line, within, original, replacement };
      });
      places.push({ ...place, mutants });
    }
  });
  return { file, script, places, mutants: places.flatMap(({ mutants }) => mutants), loops };
}

function walk(
  node: AnyNode,
  ancestors: readonly AnyNode[],
  visit: (node: AnyNode, ancestors: readonly AnyNode[]) => void,
): void {
  if (isWordingOnly(node)) return;
  visit(node, ancestors);
  const inside = [...ancestors, node];
  for (const [name, child] of Object.entries(node)) {
    if (isName(node, name)) continue;
    for (const one of Array.isArray(child) ? child : [child]) if (isNode(one)) walk(one, inside, visit);
  }
}

/** True for a child that only names something: the key of a property, or the path of an import. */
function isName(node: AnyNode, child: string): boolean {
  if (child === "source") return true;
  if (child === "key") return !("computed" in node && node.computed);
  // A shorthand property has its name twice; one of them is enough.
  return child === "property" && node.type === "MemberExpression" && !node.computed;
}

function isNode(value: unknown): value is AnyNode {
  return typeof value === "object" && value !== null && "type" in value && typeof (value as Node).start === "number";
}

/** The names of the enclosing classes, methods, functions and constants, from the outside in. */
function nameOf(path: readonly AnyNode[]): string {
  const names = path.flatMap((node) => {
    if (node.type === "FunctionDeclaration" || node.type === "ClassDeclaration") return node.id?.name ?? [];
    if (node.type === "VariableDeclarator" && node.id.type === "Identifier") return node.id.name;
    if (node.type === "MethodDefinition" || node.type === "PropertyDefinition" || node.type === "Property") {
      return node.key.type === "PrivateIdentifier" || node.key.type === "Identifier" ? node.key.name : [];
    }
    return [];
  });
  return names.join(".") || "module";
}

function lineStarts(text: string): number[] {
  return [0, ...[...text.matchAll(/\n/g)].map(({ index }) => index + 1)];
}
