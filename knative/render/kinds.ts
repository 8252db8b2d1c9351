/** The kinds that users may name to functions: the user who installs Sluice lists them, and gives no right to any other. */
import { load } from "js-yaml";
import type { KindList, KindNeed, Need } from "../../functions/shared/contract/definition.ts";
import { isClusterScoped } from "../../functions/shared/kubernetes/cluster.ts";

export interface ListedKind {
  readonly plural: string;
  /** Empty for the core group. */
  readonly group: string;
}

/** The kinds of each list. */
export type ListedKinds = Readonly<Record<KindList, readonly ListedKind[]>>;

/**
 * Stand for the kinds of each list where the list is a value of the chart: its templates put the user's kinds there. No CRD can
 * be of that group, which has no dot.
 */
export const placeholderKinds: ListedKinds = {
  mirrored: [{ plural: "mirrored", group: "kinds" }],
  owners: [{ plural: "owners", group: "kinds" }],
  // No function of the chart has a need for them.
  machines: [],
};

/** As the lists have it. */
export function formatKind({ plural, group }: ListedKind): string {
  return group === "" ? plural : `${plural}.${group}`;
}

/** PLURAL.GROUP, or PLURAL alone for the core group. */
export const listedKind = /^([a-z][a-z0-9-]*)(?:\.([a-z0-9][a-z0-9.-]*))?$/;

/** Reads the lists in a file such as `knative/kinds.yaml`. Throws Error with a message about an entry that cannot be granted. */
export function parseKinds(text: string): ListedKinds {
  const { kinds, ...fields } = (load(text) ?? {}) as Readonly<Record<string, unknown>>;
  if (kinds !== undefined)
    throw new Error(
      "it has one list `kinds`: move each kind to `mirrored`, or to `owners` where owners ask for labels",
    );
  const [unknown] = Object.keys(fields).filter((field) => !(kindLists as readonly string[]).includes(field));
  if (unknown !== undefined) throw new Error(`it has the field \`${unknown}\`: its lists are ${kindLists.join(", ")}`);
  // A file that an earlier version was happy with has no list of machines.
  const all: Readonly<Record<string, unknown>> = { machines: [], ...fields };
  const [mirrored = [], owners = [], machines = []] = kindLists.map((list) => parseList(list, all[list]));
  return { mirrored, owners, machines };
}

const kindLists = ["mirrored", "owners", "machines"] as const satisfies readonly KindList[];

function parseList(list: KindList, kinds: unknown): readonly ListedKind[] {
  if (!Array.isArray(kinds)) throw new Error(`its field \`${list}\` is no list: write \`${list}: []\` for no kind`);
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

/** A function's needs for each kind of its lists, as rights of its own. */
export function needsOfKinds(needs: readonly KindNeed[], kinds: ListedKinds): readonly Need[] {
  return needs.flatMap(({ list, subresource, exceptGroups = [], ...need }) =>
    kinds[list].flatMap(({ plural, group }) => {
      if (exceptGroups.includes(group)) return [];
      const resource = subresource === undefined ? plural : `${plural}/${subresource}`;
      return [{ ...need, group, resource }];
    }),
  );
}

/** The API groups whose kinds {@link needsOfKinds} leaves out, by list and subresource: `mirrored/status`. */
export function exceptionsOf(needs: readonly KindNeed[]): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    needs.flatMap(({ list, subresource, exceptGroups }) =>
      exceptGroups === undefined ? [] : [[subresource === undefined ? list : `${list}/${subresource}`, exceptGroups]],
    ),
  );
}
