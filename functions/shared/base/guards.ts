/** What a guard is, which is the stable name of a reason to wait: its meaning for operators, and what ends it. */

/**
 * How the wait ends.
 *
 * - `itself`: without a person, in all cases that are not a fault of something else.
 * - `person`: a person must do something.
 * - `depends`: by itself in most cases, but a person must look if it stays.
 */
export type GuardEnd = "itself" | "person" | "depends";

/** The explanation of one guard. */
export interface Guard {
  readonly ends: GuardEnd;
  /** What it means, in one clause without a full stop. */
  readonly means: string;
  /** One request, or one command that begins with `kubectl`. It may have the places of {@link GuardPlaces} in braces. */
  readonly todo: string;
  /** True where a user has asked for the wait, so that it needs no person however long it lasts. */
  readonly isChosen?: true;
}

/** All guards of a function, by name. */
export type Guards = Readonly<Record<string, Guard>>;

/** The guards of functions by their names. It has nothing under another name, such as `constructor`. */
export type GuardsByFunction = Readonly<Record<string, Guards>>;

/** The names that it is asked for may come from a Lease that any client has written. */
export function byName(definitions: readonly { readonly name: string; readonly guards: Guards }[]): GuardsByFunction {
  const entries = definitions.map(({ name, guards }) => [name, guards] as const);
  return Object.assign(Object.create(null), Object.fromEntries(entries));
}

/** What the todo of a guard may name, such as `{zone}`. */
export type GuardPlaces = Readonly<Partial<Record<"namespace" | "group" | "zone" | "pod", string>>>;

/** A guard that ends without a person. `todo`: more than that nothing is to be done. */
export function itself(means: string, todo = "nothing"): Guard {
  return { ends: "itself", means, todo };
}

/** A guard that a person must end. */
export function person(means: string, todo: string): Guard {
  return { ends: "person", means, todo };
}

/** A guard that ends by itself, unless something stays broken. */
export function depends(means: string, todo: string): Guard {
  return { ends: "depends", means, todo };
}

/** A guard that stays until the user who has asked for the wait ends it. */
export function chosen(means: string, todo: string): Guard {
  return { ...depends(means, todo), isChosen: true };
}

/** Names of objects and values of labels. Others may have been written to be run by the shell into which a user copies them. */
const plainName = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;
/** A group of another owner also has the kind of that before its name. No shell reads these two marks as its own. */
const plainGroup = /^[A-Za-z0-9](?:[A-Za-z0-9._:/-]*[A-Za-z0-9])?$/;

/** The todo with the names of `places`. A name that is not known, or is none, stays a word in capitals, such as `POD`. */
export function fillTodo({ todo }: Pick<Guard, "todo">, places: GuardPlaces): string {
  return todo.replace(/\{(namespace|group|zone|pod)\}/g, (_, place: keyof GuardPlaces) => {
    const name = places[place] ?? "";
    return (place === "group" ? plainGroup : plainName).test(name) ? name : place.toUpperCase();
  });
}

/** What is shown about a guard besides a message. Both are null for a guard that this version does not know. */
export interface GuardExplanation {
  readonly ends: GuardEnd | null;
  /** One request, or one command, with the names of the places. */
  readonly todo: string | null;
}

/** How a guard ends, and what to do. Its name may come from a Lease that any client has written. */
export function explainGuard(guards: Guards = {}, guard: string, places: GuardPlaces): GuardExplanation {
  const found = Object.hasOwn(guards, guard) ? guards[guard] : undefined;
  return found === undefined ? { ends: null, todo: null } : { ends: found.ends, todo: fillTodo(found, places) };
}
