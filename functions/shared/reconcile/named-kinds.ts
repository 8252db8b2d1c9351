/** Kinds that a user names in a setting, by discovery: what the API server serves of them now. */

import type { Context } from "../contract/context.ts";
import { isNewEvent } from "../events/recorder.ts";
import { type Cluster, KindNotServedError, type Resource } from "../kubernetes/cluster.ts";

/** A kind that the user who installs Sluice names. */
export interface NamedKind {
  readonly kind: string;
  /** Empty for the core group. */
  readonly group: string;
}

/** Reads `KIND.GROUP`, more of them after commas; undefined where one of them is no kind. */
export function parseNamedKinds(text: string): readonly NamedKind[] | undefined {
  const names = text.split(",").map((word) => word.trim());
  const named = names
    .filter((word) => word !== "")
    .map((word) => /^([A-Z][A-Za-z0-9]*)(?:\.([a-z0-9][a-z0-9.-]*))?$/.exec(word));
  const kinds = named.flatMap((match) => (match === null ? [] : [{ kind: match[1] as string, group: match[2] ?? "" }]));
  return kinds.length === named.length ? kinds : undefined;
}

/** The types of kinds as the API server serves them, and why it does not serve the others. */
export interface ServedTypes {
  readonly resources: readonly Resource[];
  readonly notServed: readonly KindNotServedError[];
}

/** Looks the kinds up by discovery. Throws ClusterError. */
export async function findTypes(
  cluster: Pick<Cluster, "resourceOf">,
  kinds: readonly NamedKind[],
): Promise<ServedTypes> {
  const notServed: KindNotServedError[] = [];
  const found = kinds.map(async ({ group, kind }) => {
    try {
      return [(await cluster.resourceOf(group, kind)).resource];
    } catch (error) {
      if (!(error instanceof KindNotServedError)) throw error;
      notServed.push(error);
      return [];
    }
  });
  return { resources: (await Promise.all(found)).flat(), notServed };
}

/** Reports once what is wrong with kinds of a setting, and goes on without them. */
export function reportKinds(
  context: Context,
  by: string,
  setting: { readonly name: string },
  errors: readonly { readonly message: string }[],
): void {
  const key = { namespace: "", group: "" };
  for (const { message } of errors)
    if (isNewEvent(context, key, message)) context.reporter.problem(key, by, `${setting.name}: ${message}`);
}
