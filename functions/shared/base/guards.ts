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
}

/** All guards of a function, by name. */
export type Guards = Readonly<Record<string, Guard>>;

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

/** Names of objects and values of labels. Others may have been written to be run by the shell into which a user copies them. */
const plainName = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** The todo with the names of `places`. A name that is not known, or is none, stays a word in capitals, such as `POD`. */
export function fillTodo({ todo }: Pick<Guard, "todo">, places: GuardPlaces): string {
  return todo.replace(/\{(namespace|group|zone|pod)\}/g, (_, place: keyof GuardPlaces) => {
    const name = places[place] ?? "";
    return plainName.test(name) ? name : place.toUpperCase();
  });
}
