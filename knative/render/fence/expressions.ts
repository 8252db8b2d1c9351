/**
 * The fence in CEL, the language of admission policies: two states of an object must be equal, except for the paths that an
 * account may change.
 */

import { ours, skipLabelPath } from "../../../functions/shared/annotations/paths.ts";
import { placeholderNamespace } from "../object.ts";

/** Paths by group and resource, as `statefulsets.apps/status` names them, for each account. */
export type Table = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

export interface Variable {
  readonly name: string;
  readonly expression: string;
}

/** A list of texts. Throws Error for a text that would end the literal. */
export function listIn(texts: readonly string[]): string {
  return `[${texts.map(literal).join(", ")}]`;
}

/** A text. Throws Error for one that would end the literal. */
export function literal(text: string): string {
  if (/['\\\n]/.test(text)) throw new Error(`${JSON.stringify(text)} cannot be written into an expression`);
  return `'${text}'`;
}

/** One line for each account and resource: people read in the cluster which account may change what. */
function tableIn(table: Table): string {
  const accounts = Object.entries(table).map(([account, changes]) => {
    const lines = Object.entries(changes).map(([resource, paths]) => `    ${literal(resource)}: ${listIn(paths)}`);
    return `  ${literal(account)}: {\n${lines.join(",\n")}\n  }`;
  });
  return `{\n${accounts.join(",\n")}\n}`;
}

/** True for a request of one of our accounts. Kustomize writes the namespace between the colons. */
export function isOurs(accounts: readonly string[], namespace = placeholderNamespace): string {
  const user = "request.userInfo.username";
  const isHere = `${user}.startsWith('system:serviceaccount:${namespace}:')`;
  return `${isHere} && ${user}.split(':')[3] in ${listIn(accounts)}`;
}

/** The metadata that the policies compare, and the value of an object without it. */
export const wordless = { labels: "{}", annotations: "{}", finalizers: "[]", ownerReferences: "[]" } as const;

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

/**
 * The common variables of the validations: the object before and after, and the paths that this account may change.
 *
 * @param sort expression of what the table adds to the name of a resource whose objects are of several sorts; absent: nothing
 * @param free expression of a list of paths, that every account of the table may change as well; absent: none
 */
export function variablesOf(
  table: Table,
  { sort, free }: { readonly sort?: string; readonly free?: string } = {},
): readonly Variable[] {
  const metadata = Object.entries(wordless).flatMap(([field, nothing]): Variable[] =>
    ["before", "after"].map((when) => ({
      name: `${field}${capital(when)}`,
      expression: `'${field}' in variables.${when}.metadata ? variables.${when}.metadata.${field} : ${nothing}`,
    })),
  );
  return [
    { name: "table", expression: tableIn(table) },
    { name: "account", expression: "request.userInfo.username.split(':')[3]" },
    {
      name: "resource",
      expression:
        "request.resource.resource + (request.resource.group == '' ? '' : '.' + request.resource.group) + " +
        "(has(request.subResource) && request.subResource != '' ? '/' + request.subResource : '')" +
        (sort === undefined ? "" : ` + ${sort}`),
    },
    {
      name: "changes",
      expression:
        "variables.account in variables.table && variables.resource in variables.table[variables.account] ? " +
        `variables.table[variables.account][variables.resource]${free === undefined ? "" : ` + ${free}`} : []`,
    },
    { name: "before", expression: "oldObject == null ? {'metadata': {}} : oldObject" },
    { name: "after", expression: "object == null ? {'metadata': {}} : object" },
    ...metadata,
  ];
}

/** Fields that have validations of their own, or none. */
const apart = ["apiVersion", "kind", "metadata"];
/** True if no field differs except those that may be changed, and those of `besides`. */
export function onlyChanges(table: Table, besides: readonly string[]): string {
  const paths = Object.values(table).flatMap((changes) => Object.values(changes).flat());
  const fields = paths.filter((path) => ![...apart, ...besides].some((one) => path.startsWith(one)));
  const depth = Math.max(1, ...fields.map((path) => path.split(".").length));
  const left = listIn([...apart, ...besides]);
  const [before, after] = ["variables.before", "variables.after"];
  const covers = (now: string, then: string) =>
    `${now}.all(f, f in ${left} || ${now}[f] == {} || ${fieldCovered(now, then, "f", "", depth)})`;
  return `${covers(after, before)} &&\n${covers(before, after)}`;
}

/**
 * For a field of one map: the other map has the same value, or its path may be changed, or the same is true in turn of its own
 * fields.
 */
function fieldCovered(now: string, then: string, name: string, prefix: string, levels: number): string {
  const path = prefix + name;
  const same = `${name} in ${then} && ${then}[${name}] == ${now}[${name}]`;
  const free = `${path} in variables.changes`;
  if (levels === 1) return `${same} || ${free}`;
  const inner = `${name}${name[0]}`;
  const [inNow, inThen] = [`${now}[${name}]`, `(${name} in ${then} ? ${then}[${name}] : {})`];
  const deeper = fieldCovered(inNow, inThen, inner, `${path} + '.' + `, levels - 1);
  return (
    `${same} || ${free} || ` +
    `variables.changes.exists(p, p.startsWith(${path} + '.')) && ${inNow}.all(${inner}, ${deeper})`
  );
}

/** The variable with the keys of labels that pods may get. */
export const skipLabelKeys = "skipLabelKeys";
/** The variable with the namespaces that are served. */
export const servedNamespaces = "namespaces";

/** True if labels and annotations differ only by keys that may be changed. */
export function onlyOurLabels(variables: readonly Variable[]): string {
  const isListed = variables.some(({ name }) => name === skipLabelKeys);
  const keys = `variables.${skipLabelKeys}`;
  const isPrefix = "p.endsWith('/*') && k.startsWith(p.substring(0, size(p) - 1))";
  const listed = `${literal(skipLabelPath)} in variables.changes && (k in ${keys} || ${keys}.exists(p, ${isPrefix}))`;
  const covers = (now: string, then: string, free: string) =>
    `${now}.all(k, k in ${then} && ${then}[k] == ${now}[k] || ${free})`;
  const differs = (field: string, free: string) => {
    const [before, after] = [`variables.${field}Before`, `variables.${field}After`];
    return `${covers(after, before, free)} &&\n${covers(before, after, free)}`;
  };
  const labels = differs("labels", isListed ? `${isFree("labels")} || ${listed}` : isFree("labels"));
  return `${labels} &&\n${differs("annotations", isFree("annotations"))}`;
}

function isFree(field: string): string {
  const path = `'metadata.${field}[' + k`;
  return (
    `${path} + ']' in variables.changes || variables.changes.exists(p, p.endsWith('*]') && ` +
    `(${path}).startsWith(p.substring(0, size(p) - 2)))`
  );
}

/** True if owners are the same, and finalizers differ only by those that may be changed. */
export function onlyOurFinalizers(): string {
  const foreign = (when: string) =>
    `variables.finalizers${when}.filter(n, !('metadata.finalizers[' + n + ']' in variables.changes))`;
  return (
    `${foreign("After")} == ${foreign("Before")} &&\n` +
    "variables.ownerReferencesAfter == variables.ownerReferencesBefore"
  );
}

/** True where no finalizer of Sluice is there that was not there before. */
export function noMoreFinalizers(): string {
  return `variables.finalizersAfter.all(f, !f.startsWith(${literal(ours)}) || f in variables.finalizersBefore)`;
}

/** A path that begins with a review key, and has at least one segment behind the key. */
const keyedPath = "^/[0-9a-f]{64}/[^/]";
const keyLength = "/".length + 64;

/**
 * True where the path of a webhook is the same before and after, or only its review key differs: it has one after. No key can be
 * taken away, and what is behind the key cannot change, so that an account cannot send reviews to another path.
 */
function onlyKeyDiffers(now: string, then: string): string {
  const paths = (w: string) =>
    `['service' in ${w}.clientConfig && 'path' in ${w}.clientConfig.service ? ${w}.clientConfig.service.path : '']`;
  const isKeyed = (path: string) => `${path}.matches(${literal(keyedPath)})`;
  const behindKey = (path: string) => `${path}.substring(${keyLength})`;
  return (
    `${paths(now)}.all(p, ${paths(then)}.all(q, p == q ||\n  variables.mayKey && ${isKeyed("p")} && ` +
    `${behindKey("p")} == (${isKeyed("q")} ? ${behindKey("q")} : q)))`
  );
}

/** True if the account may write review keys, and the configuration's label asks for them. */
export function mayKey(path: string, label: string): Variable {
  const isLabelled = (when: string) =>
    `${literal(label)} in variables.labels${when} && variables.labels${when}[${literal(label)}] == 'true'`;
  const expression = `${literal(path)} in variables.changes && ${isLabelled("Before")} && ${isLabelled("After")}`;
  return { name: "mayKey", expression };
}

/**
 * True if no webhook is added or removed, and each differs only by its trusted authorities, and by its review key. It needs the
 * variable of {@link mayKey}.
 */
export function onlyBundlesAndKeys(path: string): string {
  const same = (k: string, now: string, then: string) => `${k} in ${then} && ${then}[${k}] == ${now}[${k}]`;
  const services = (now: string, then: string) =>
    `'service' in ${then} && ${now}.service.all(s, s == 'path' || ${same("s", `${now}.service`, `${then}.service`)})`;
  const clients = (now: string, then: string) =>
    `${now}.all(c, c == 'caBundle' || ${same("c", now, then)} || c == 'service' && ${services(now, then)})`;
  const covers = (now: string, then: string) =>
    `${now}.all(k, k == 'clientConfig' || ${same("k", now, then)}) && ${clients(`${now}.clientConfig`, `${then}.clientConfig`)}`;
  const webhooks = (when: string) => `('webhooks' in variables.${when} ? variables.${when}.webhooks : [])`;
  return (
    `${webhooks("after")} == ${webhooks("before")} || ${literal(path)} in variables.changes &&\n` +
    `size(${webhooks("after")}) == size(${webhooks("before")}) &&\n` +
    `${webhooks("after")}.all(w, ${webhooks("before")}.exists(o, o.name == w.name &&\n` +
    `  ${covers("w", "o")} &&\n  ${covers("o", "w")} &&\n  ${onlyKeyDiffers("w", "o")}))`
  );
}
