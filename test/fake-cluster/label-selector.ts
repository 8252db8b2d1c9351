/** Label selectors as the API server reads them: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`. */

import type { LabelSelector } from "../../functions/shared/kubernetes/cluster.ts";

export type Labels = Readonly<Record<string, string>> | undefined;

/** True for labels that a selector selects. */
export type LabelMatcher = (labels: Labels) => boolean;

const parsed = new Map<string, LabelMatcher>();

/** A malformed selector. The API server answers 400 with this message. */
export class LabelSelectorError extends Error {
  override readonly name = "LabelSelectorError";
}

/**
 * The matcher of a selector, remembered by its text; undefined for one that selects everything.
 *
 * @throws LabelSelectorError if the text is not a selector.
 */
export function labelMatcher(selector: string | undefined): LabelMatcher | undefined {
  if (selector === undefined || selector.trim() === "") return undefined;
  let matcher = parsed.get(selector);
  if (matcher === undefined) {
    const requirements = splitRequirements(selector).map(parseRequirement);
    const only = requirements[0] as LabelMatcher;
    matcher = requirements.length === 1 ? only : (labels) => requirements.every((matches) => matches(labels));
    parsed.set(selector, matcher);
  }
  return matcher;
}

/** True if the selector of an object, such as a budget, selects these labels. One without requirements selects everything. */
export function selects({ matchLabels = {}, matchExpressions = [] }: LabelSelector, labels: Labels): boolean {
  return (
    Object.entries(matchLabels).every(([key, value]) => labels?.[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labels?.[key];
      if (operator === "In") return value !== undefined && values.includes(value);
      if (operator === "NotIn") return value === undefined || !values.includes(value);
      return (operator === "Exists") === (value !== undefined);
    })
  );
}

/** Commas inside parentheses separate values, not requirements. */
function splitRequirements(selector: string): string[] {
  const requirements: string[] = [];
  let depth = 0;
  let start = 0;
  for (let index = 0; index < selector.length; index++) {
    const letter = selector[index];
    if (letter === "(") depth++;
    else if (letter === ")") depth--;
    else if (letter === "," && depth === 0) {
      requirements.push(selector.slice(start, index));
      start = index + 1;
    }
  }
  requirements.push(selector.slice(start));
  return requirements;
}

const key = "((?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)";
const equality = new RegExp(String.raw`^\s*${key}\s*(==|=|!=)\s*([A-Za-z0-9._-]*)\s*$`);
const membership = new RegExp(String.raw`^\s*${key}\s+(in|notin)\s*\(([^()]*)\)\s*$`);
const existence = new RegExp(String.raw`^\s*(!?)\s*${key}\s*$`);

function parseRequirement(text: string): LabelMatcher {
  const equal = equality.exec(text);
  if (equal !== null) {
    const [, name, operator, value] = equal as unknown as [string, string, string, string];
    // As in Kubernetes, `!=` and `notin` also select objects without the label.
    return operator === "!=" ? (labels) => labels?.[name] !== value : (labels) => labels?.[name] === value;
  }
  const member = membership.exec(text);
  if (member !== null) {
    const [, name, operator, list] = member as unknown as [string, string, string, string];
    const values = new Set(list.split(",").map((value) => value.trim()));
    return operator === "in"
      ? (labels) => labels?.[name] !== undefined && values.has(labels[name])
      : (labels) => labels?.[name] === undefined || !values.has(labels[name]);
  }
  const exists = existence.exec(text);
  if (exists !== null) {
    const [, negated, name] = exists as unknown as [string, string, string];
    return negated === "!" ? (labels) => labels?.[name] === undefined : (labels) => labels?.[name] !== undefined;
  }
  throw new LabelSelectorError(`unable to parse requirement: ${JSON.stringify(text.trim())}`);
}
