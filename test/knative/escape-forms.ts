/** Requests that have to be refused: a change of an object in each form of a patch that the API server takes. */

/** A request that has to be refused, or that has to pass so that the function can do its work. */
export interface Attempt {
  readonly what: string;
  readonly method: "PATCH" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: object;
  readonly contentType?: string;
  /** What has to refuse it. An administrator may do what a policy refuses, so that no mistake in the request does. */
  readonly by: "policy" | "role" | "nothing";
}

export type Fields = Readonly<Record<string, unknown>>;

/** What is tried with the fields of an object: each is a path and its new value, null for its removal. */
export interface Change {
  readonly what: string;
  readonly fields: readonly (readonly [path: readonly string[], value: unknown])[];
  /** Some forms cannot say it: applying takes away nothing that others have written. */
  readonly unless?: readonly Form[];
}

export type Form = keyof typeof forms;

export interface Target {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly name: string;
  /** Undefined for what is of no namespace. */
  readonly namespace: string | undefined;
  readonly subresource?: string;
}

export const forms = {
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

function nested([first = "", ...rest]: readonly string[], value: unknown): Fields {
  return { [first]: rest.length === 0 ? value : nested(rest, value) };
}

function merged(one: Fields, other: Fields): Fields {
  const both = Object.entries(other).map(([key, value]) => {
    const isBoth = isFields(one[key]) && isFields(value);
    return [key, isBoth ? merged(one[key] as Fields, value) : value] as const;
  });
  return { ...one, ...Object.fromEntries(both) };
}

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function bodyOf(form: Form, { apiVersion, kind, name }: Target, { fields }: Change): object {
  const pointer = (path: readonly string[]) =>
    path.map((part) => `/${part.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  if (form === "json")
    return fields.map(([path, value]) =>
      value === null ? { op: "remove", path: pointer(path) } : { op: "add", path: pointer(path), value },
    );
  const all = fields.map(([path, value]) => nested(path, value)).reduce(merged, {});
  return form === "apply" ? merged({ apiVersion, kind, metadata: { name } }, all) : all;
}

export function pathOf({ apiVersion, plural, namespace, name, subresource }: Target): string {
  const api = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const scope = namespace === undefined ? "" : `/namespaces/${namespace}`;
  return [`${api}${scope}/${plural}`, name, subresource].filter(Boolean).join("/");
}

/** A change in every form of a patch that the object knows. */
export function patches(target: Target, change: Change, by: Attempt["by"] = "policy"): readonly Attempt[] {
  const isCustom = /rabbitmq|foundationdb/.test(target.apiVersion);
  const possible = (Object.keys(forms) as Form[]).filter(
    (form) => !(isCustom && form === "strategic") && !change.unless?.includes(form),
  );
  return possible.map((form) => ({
    what: `${target.namespace ?? ""}/${target.name}: ${change.what}, ${form}`,
    method: "PATCH",
    path: `${pathOf(target)}${form === "apply" ? "?fieldManager=attacker&force=true" : ""}`,
    body: bodyOf(form, target, change),
    contentType: forms[form],
    by,
  }));
}
