/** A process writes only what some function declares to change. In a cluster the fence refuses every other path. */

import { skipLabelPath } from "../../functions/shared/annotations/paths.ts";
import type { Resource } from "../../functions/shared/kubernetes/cluster.ts";
import { table } from "../../triggers/table.ts";
import type { Caller, Checker } from "./checker.ts";
import type { SeedRun } from "./seed.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Declared paths by resource, those of subresources included. */
const declared = new Map<string, string[]>();
for (const { resource, changes = [] } of table.flatMap(({ needs }) => needs)) {
  const [plural = ""] = resource.split("/");
  declared.set(plural, [...(declared.get(plural) ?? []), ...changes]);
}

/** Declared paths of the kinds that users name. */
const ofKinds = table.flatMap(({ kindNeeds = [] }) => kindNeeds.flatMap(({ changes = [] }) => changes));

/** No function has a right to Secrets: a user lets this one patch the Secret that its processes mount, by a Role of its own. */
const byUsersRole: Readonly<Record<string, readonly string[]>> = {
  "restarter secrets": ["data", "metadata.ownerReferences", "metadata.annotations[sluice.dev/restart-settings]"],
};

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The paths that a merge patch writes although no function declares them for such an object. */
export function unsaid(resource: string, body: object): readonly string[] {
  const paths = [...(declared.get(resource) ?? []), ...ofKinds];
  const { metadata = {}, ...fields } = body as Fields;
  return [
    ...wordsIn(metadata as Fields),
    ...Object.entries(fields).flatMap(([field, value]) => pathsIn(field, value, paths)),
  ].filter((path) => !isDeclared(path, paths));
}

function wordsIn(metadata: Fields): readonly string[] {
  const { uid: _uid, resourceVersion: _revision, labels = {}, annotations = {}, finalizers = [], ...others } = metadata;
  return [
    ...Object.keys(labels as Fields).map((key) => `metadata.labels[${key}]`),
    ...Object.keys(annotations as Fields).map((key) => `metadata.annotations[${key}]`),
    // A patch repeats the finalizers of others unchanged.
    ...(finalizers as readonly string[])
      .filter((one) => one.startsWith("sluice.dev/"))
      .map((one) => `metadata.finalizers[${one}]`),
    ...Object.keys(others).map((key) => `metadata.${key}`),
  ];
}

function pathsIn(path: string, value: unknown, paths: readonly string[]): readonly string[] {
  const isBranch = isFields(value) && paths.some((one) => one.startsWith(`${path}.`));
  return isBranch ? Object.entries(value).flatMap(([field, one]) => pathsIn(`${path}.${field}`, one, paths)) : [path];
}

function isDeclared(path: string, paths: readonly string[]): boolean {
  return paths.some((one) => {
    if (one === skipLabelPath) return path.startsWith("metadata.labels[");
    return one === path || (one.endsWith("*]") && path.startsWith(one.slice(0, -2)));
  });
}

export class DeclaredChanges implements Checker {
  readonly invariants = ["C1"];
  readonly #violate: SeedRun["violate"];

  constructor({ violate }: Pick<SeedRun, "violate">) {
    this.#violate = violate;
  }

  onPatched({ process, role }: Caller, resource: Resource, _after: object, body: object): void {
    // A taker makes claims that no shipped function makes.
    if (role.name === "taker") return;
    const permitted = byUsersRole[`${role.name} ${resource}`] ?? [];
    for (const path of unsaid(resource, body).filter((one) => !permitted.includes(one)))
      this.#violate("C1", `${process.name} writes ${path} of ${resource}, and no function says that it changes that`);
  }
}
