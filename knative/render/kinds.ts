/** The kinds that users may name to functions: who installs Sluice lists them, and gives no right to any other. */
import { load } from "js-yaml";
import type { KindNeed, Need } from "../../functions/shared/contract/definition.ts";
import { isClusterScoped } from "../../functions/shared/kubernetes/cluster.ts";

export interface ListedKind {
  readonly plural: string;
  /** Empty for the core group. */
  readonly group: string;
}

/** PLURAL.GROUP, or PLURAL alone for the core group. */
const listedKind = /^([a-z][a-z0-9-]*)(?:\.([a-z0-9][a-z0-9.-]*))?$/;

/** Reads the list in a file such as `knative/kinds.yaml`. Throws Error with a message about what in it cannot be granted. */
export function parseKinds(text: string): readonly ListedKind[] {
  const { kinds } = (load(text) ?? {}) as { kinds?: unknown };
  if (!Array.isArray(kinds)) throw new Error("its field `kinds` is no list: write `kinds: []` where users name none");
  return kinds.map(parseKind);
}

function parseKind(name: unknown): ListedKind {
  const shown = JSON.stringify(name);
  if (typeof name === "string" && name.includes("*"))
    throw new Error(`${shown} is a wildcard: list each kind by itself, as \`kubectl get crd\` does`);
  const [, plural, group = ""] = (typeof name === "string" && listedKind.exec(name)) || [];
  if (plural === undefined) throw new Error(`${shown} is not PLURAL.GROUP, as \`kubectl get crd\` lists a kind`);
  if (isClusterScoped({ group, resource: plural }))
    throw new Error(`${shown} is of no namespace: users name objects of their own one`);
  if (plural === "secrets" && group === "")
    throw new Error(`${shown} are credentials: no function may read those that users name`);
  return { plural, group };
}

/** What a function needs of each listed kind, as rights of its own. */
export function needsOfKinds(needs: readonly KindNeed[], kinds: readonly ListedKind[]): readonly Need[] {
  return kinds.flatMap(({ plural, group }) =>
    needs.map(({ subresource, ...need }) => {
      const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
      return { ...need, group, resource };
    }),
  );
}
