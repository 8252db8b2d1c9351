/** What the API server may ask a version to review, and whether a version and the one before it can replace each other. */
import { isDeepStrictEqual } from "node:util";
import { dump } from "js-yaml";
import type { AdmissionDefinition } from "../../functions/shared/admission/definition.ts";

type Rule = AdmissionDefinition["registration"]["rule"];

/** Kinds of requests by path, each as `CREATE v1 pods/eviction`: operation, group and version, resource. */
export type Reviews = Readonly<Record<string, readonly string[]>>;

/** What a version has reviewed, and what it reviews. */
export interface Version {
  readonly names: Reviews;
  readonly answers: Reviews;
}

/** The part of a webhook configuration that says what is reviewed. */
export interface Webhook {
  readonly clientConfig: { readonly service: { readonly path: string } };
  readonly rules: readonly Rule[];
}

/** What the functions review at the paths where a server answers. */
export function answersOf(definitions: readonly AdmissionDefinition[], paths: readonly string[]): Reviews {
  return reviewsOf(
    definitions.flatMap(({ paths: own, registration: { rule }, nextRules = [] }) =>
      own.filter((path) => paths.includes(path)).map((path) => [path, [rule, ...nextRules]] as const),
    ),
  );
}

/** What webhook configurations have reviewed. */
export function namesOf(webhooks: readonly Webhook[]): Reviews {
  return reviewsOf(webhooks.map(({ clientConfig, rules }) => [clientConfig.service.path, rules] as const));
}

function reviewsOf(all: readonly (readonly [path: string, rules: readonly Rule[]])[]): Reviews {
  const byPath = Map.groupBy(all, ([path]) => path);
  const paths = [...byPath.keys()].sort();
  return Object.fromEntries(
    paths.map((path) => {
      const rules = (byPath.get(path) ?? []).flatMap(([, rules]) => rules);
      return [path, [...new Set(rules.flatMap(kindsOf))].sort()];
    }),
  );
}

function kindsOf({ apiGroups, apiVersions, operations, resources }: Rule): string[] {
  return apiGroups.flatMap((group) =>
    apiVersions.flatMap((version) =>
      operations.flatMap((operation) =>
        resources.map((resource) => `${operation} ${group === "" ? version : `${group}/${version}`} ${resource}`),
      ),
    ),
  );
}

/**
 * What is wrong with the file, one message each. The last entry has to be that of `version` and to equal `present`, and no review
 * may get lost while a version and the next one replace each other.
 */
export function mistakesOf(file: Readonly<Record<string, Version>>, version: string, present: Version): string[] {
  const [last, before] = Object.keys(file).reverse();
  if (last !== version)
    return [
      `package.json has the version ${version}, and the last entry of knative/reviews.yaml is ${last}: copy it, below it, for ${version}`,
    ];
  const wrong = (["names", "answers"] as const).flatMap((list) =>
    differing(file[last]?.[list] ?? {}, present[list]).map((path) => `\`${list}\` of ${path}`),
  );
  const advice = `knative/reviews.yaml is wrong about ${wrong.join(", ")}. For ${version}, which is not released yet, write\n`;
  return [
    ...(wrong.length === 0 ? [] : [advice + dump({ [version]: present })]),
    ...(before === undefined ? [] : lostBetween(present, { version: before, ...(file[before] as Version) })),
  ];
}

/** The paths about which two lists differ. */
function differing(one: Reviews, other: Reviews): string[] {
  const paths = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...paths].filter((path) => !isDeepStrictEqual(one[path], other[path]));
}

function lostBetween(present: Version, before: Version & { readonly version: string }): string[] {
  const unanswered = lacking(present.names, before.answers).map(
    (what) =>
      `a webhook configuration names ${what}, which ${before.version} does not answer: answer it in this version, and name it in the next`,
  );
  const dropped = lacking(before.names, present.answers).map(
    (what) =>
      `${before.version} names ${what}, which this version does not answer: answer it in this version, and drop it in the next`,
  );
  return [...unanswered, ...dropped];
}

/** What is named and not answered: path and kind of request. */
function lacking(names: Reviews, answers: Reviews): string[] {
  return Object.entries(names).flatMap(([path, kinds]) =>
    kinds.filter((kind) => !answers[path]?.includes(kind)).map((kind) => `${path} for ${kind}`),
  );
}
