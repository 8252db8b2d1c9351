/** Turns manifests into templates of the chart: YAML with actions of Helm in the places of a user's values. */
import { dump } from "js-yaml";
import { type Manifest, placeholderNamespace } from "../object.ts";

export const header = "{{- /* Written by `npm run render`. Change the code that it comes from. */ -}}\n";

/** Has no space, because js-yaml folds lines there, and an action of Helm must not be broken. */
const namespaceToken = "@NAMESPACE@";
/** Stands for each namespace that the release serves, in the templates of {@link forEachServed}. */
export const servedToken = "@SERVED@";
/** Actions of Helm, by the token that they replace. */
const places = { [namespaceToken]: ".Release.Namespace", [servedToken]: "$served" };
const namespaceWord = new RegExp(`\\b${placeholderNamespace}\\b`, "g");
const commonLabels = lines("with-common-labels");

/** The lines of a template that replace a key of the manifest, by that key. */
export type Lines = Readonly<Record<string, readonly string[]>>;

/** A key to write into a manifest, or into an item of a list, where {@link templateOf} writes lines of its own. */
export function lines(name: string): Readonly<Record<string, null>> {
  return { [`@${name}@`]: null };
}

/** A field that is in the template only if the user sets that value: `nodeSelector`, for example. */
export function optional(field: string, value: string): readonly string[] {
  return [`{{- with ${value} }}`, `${field}:`, "  {{- toYaml . | nindent COLUMN }}", "{{- end }}"];
}

/**
 * The template of one object. The namespace of the release stands wherever the manifests have their placeholder. A string that is
 * an action of Helm as a whole loses its quotes. Throws Error for a key of {@link lines} without lines.
 */
export function templateOf(manifest: Manifest, { isOfCluster = false, own = {} }: Parts = {}): string {
  const { labels = {} } = manifest.metadata;
  const namespace = isOfCluster ? {} : { namespace: placeholderNamespace };
  const { name, ...rest } = manifest.metadata;
  const metadata = { name, ...namespace, ...rest, labels: { ...labels, ...commonLabels } };
  const text = dump(inNamespace({ ...manifest, metadata }), { noRefs: true, lineWidth: 120 });
  const all: Lines = { ...own, "with-common-labels": ['{{- include "sluice.commonLabels" . | nindent COLUMN }}'] };
  const rendered = text
    .replace(/^( *)(?:- )?'@([a-z-]+)@': null$/gm, (_, indent: string, key: string) => place(all, key, indent.length))
    .replace(/'(\{\{ [^'\n]* \}\})'/g, "$1");
  return Object.entries(places).reduce(placeNamespace, rendered);
}

/** As a scalar by itself it needs quotes, because a namespace may be a number. */
function placeNamespace(text: string, [token, action]: readonly [string, string]): string {
  const whole = new RegExp(`(?<!')'${token}'(?!')`, "g");
  return text.replace(whole, () => `{{ ${action} | quote }}`).replaceAll(token, () => `{{ ${action} }}`);
}

interface Parts {
  /** True for an object that has no namespace. */
  readonly isOfCluster?: boolean;
  readonly own?: Lines;
}

/** The lines in the column of their key. COLUMN in a line is replaced by the column of the lines that it inserts. */
function place(all: Lines, key: string, indent: number): string {
  const own = all[key];
  if (own === undefined) throw new Error(`a manifest has the key ${key}, and no lines are given for it`);
  return own
    .map((line) => {
      const inner = line.startsWith("  ") ? indent + 2 : indent;
      return `${" ".repeat(indent)}${line.replaceAll("COLUMN", `${inner}`)}`;
    })
    .join("\n");
}

function inNamespace(value: unknown): unknown {
  if (typeof value === "string") return value.replace(namespaceWord, namespaceToken);
  if (Array.isArray(value)) return value.map(inNamespace);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inNamespace(inner)]));
}

/** A template of one object for each namespace that the release serves. */
export function forEachServed(template: string): string {
  const each = '{{- range $served := include "sluice.namespaces" . | fromJsonArray }}\n{{- with $ }}';
  return `${each}\n---\n${template}{{- end }}\n{{- end }}\n`;
}

/** Several templates in one file, under a condition if there is one. */
export function fileOf(templates: readonly string[], condition?: string): string {
  const text = templates.join("---\n");
  return condition === undefined ? header + text : `${header}{{- if ${condition} }}\n${text}{{- end }}\n`;
}
