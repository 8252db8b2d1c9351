/**
 * ZoneAwarePodDisruptionBudgets, parsed at the border: either a budget whose every field can be relied on, or the first
 * field that is wrong with a message that says what to write instead. The order of the checks is rollout-operator's.
 */

import { RE2JS } from "re2js";
import { describeExcess } from "../annotations/bounds.ts";
import type { Allowance } from "../annotations/table.ts";
import { BoundedMap } from "../base/bounded-map.ts";
import { shownCharacters } from "../base/escape-control.ts";
import { type Fields, fieldsOf } from "../base/fields.ts";
import { parseGoDuration } from "../clock/durations.ts";

const budgetKind = "ZoneAwarePodDisruptionBudget";

/** Which part of a pod's name is its partition. */
export interface PartitionRule {
  readonly expression: string;
  /** The capture group that is the partition, from 1. */
  readonly group: number;
  /** The partition of a pod; undefined where the name does not match or the group took nothing. */
  partitionOf(podName: string): string | undefined;
}

export interface ZoneBudget {
  /** How many pods of a zone, or of a partition, may be down; none at all when it is 0. */
  readonly allowance: Allowance;
  /** All of them have to be on a pod. Empty: every pod of the namespace is governed. */
  readonly matchLabels: ReadonlyMap<string, string>;
  /** Undefined: each zone has the budget for itself. */
  readonly partitions: PartitionRule | undefined;
  /** How long a pod has to have been ready before another zone may be disrupted, in milliseconds. */
  readonly crossZoneEvictionDelayMs: number;
}

/** Why an object is no budget. */
export interface InvalidBudget {
  /** The path of the field, such as `spec.maxUnavailable`. */
  readonly field: string;
  readonly message: string;
}

/** The first field that is wrong. {@link parseZoneBudget} alone catches it. */
class InvalidField extends Error {
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/** Longer ones are refused unread: no name of a pod has more than 253 characters. */
const longestExpression = 500;
/** RE2 takes time in proportion to the name and to this many instructions: both are bounded, so the time is. */
const largestProgram = 2_000;
const rememberedNames = 10_000;
const compiledExpressions = new BoundedMap<string, RE2JS>(100);

/** The budget that an object of the API server is. Never throws, whatever the object. */
export function parseZoneBudget(object: unknown): { readonly budget: ZoneBudget } | InvalidBudget {
  try {
    return { budget: parseBudget(object) };
  } catch (error) {
    if (!(error instanceof InvalidField)) throw error;
    return { field: error.field, message: error.message };
  }
}

function parseBudget(object: unknown): ZoneBudget {
  const whole = fieldsOf(object);
  const spec = fieldsOf(whole?.spec);
  if (whole === undefined || spec === undefined) {
    const advice = "write a spec with a selector and with maxUnavailable or maxUnavailablePercentage";
    throw wrong("spec", whole?.spec, advice);
  }
  if (whole.kind !== budgetKind) throw wrong("kind", whole.kind, `write ${budgetKind}`);
  const allowance = parseAllowance(spec);
  const partitions = parsePartitions(spec);
  const matchLabels = parseSelector(spec);
  const crossZoneEvictionDelayMs = parseDelay(spec, partitions !== undefined);
  if ("percent" in allowance && allowance.percent > 0 && partitions !== undefined) {
    const field = "spec.maxUnavailablePercentage";
    const message = `${field} above 0 cannot be combined with spec.podNamePartitionRegex: write maxUnavailable, which counts the pods of a partition in all zones`;
    throw new InvalidField(field, message);
  }
  return { allowance, matchLabels, partitions, crossZoneEvictionDelayMs };
}

function parseAllowance(spec: Fields): Allowance {
  const { maxUnavailable: pods, maxUnavailablePercentage: percent } = spec;
  if (pods !== undefined && percent !== undefined) {
    const field = "spec.maxUnavailable";
    const message = `${field} and spec.maxUnavailablePercentage are both written, and only one of them can hold: leave one out, even where it is 0`;
    throw new InvalidField(field, message);
  }
  if (pods !== undefined && !isInteger(pods, 0, Number.MAX_SAFE_INTEGER)) {
    throw wrong("spec.maxUnavailable", pods, "write an integer of at least 0, or use maxUnavailablePercentage");
  }
  if (percent !== undefined && !isInteger(percent, 0, 100)) {
    throw wrong("spec.maxUnavailablePercentage", percent, "write an integer from 0 to 100, without a percent sign");
  }
  return percent === undefined ? { pods: pods ?? 1 } : { percent };
}

function parsePartitions(spec: Fields): PartitionRule | undefined {
  const { podNamePartitionRegex: expression = "" } = spec;
  const field = "spec.podNamePartitionRegex";
  const advice = "write an RE2 expression for the whole name of a pod, with a capture group for its partition";
  if (typeof expression !== "string") throw wrong(field, expression, advice);
  if (expression === "") return undefined;
  if (expression.length > longestExpression) {
    throw new InvalidField(field, `${field} has ${expression.length} characters: write at most ${longestExpression}`);
  }
  let compiled: RE2JS;
  try {
    compiled = compile(expression);
  } catch (error) {
    throw wrong(field, expression, `${advice} (${(error as Error).message})`);
  }
  if (compiled.programSize() > largestProgram) {
    throw wrong(field, expression, "write a smaller expression: its repetitions make too many steps");
  }
  return createPartitionRule(expression, compiled, parseGroup(spec, compiled.groupCount()));
}

/** A budget is parsed at each LIST and each event, and this takes longer than all the rest of it. */
function compile(expression: string): RE2JS {
  const known = compiledExpressions.get(expression);
  if (known !== undefined) return known;
  // By itself first: between the anchors, `*a` would repeat the first of them, and a last `\` would escape the other.
  RE2JS.compile(expression);
  const compiled = RE2JS.compile(`^${expression}$`);
  compiledExpressions.set(expression, compiled);
  return compiled;
}

function parseGroup(spec: Fields, groups: number): number {
  const field = "spec.podNameRegexGroup";
  const { podNameRegexGroup: group } = spec;
  if (groups === 0) {
    const place = "spec.podNamePartitionRegex";
    const message = `${place} has no capture group: put the part that is the partition in parentheses`;
    throw new InvalidField(place, message);
  }
  if (group === undefined && groups > 1) {
    const message = `${field} is missing, and the expression has ${groups} capture groups: write which one is the partition, 1 to ${groups}`;
    throw new InvalidField(field, message);
  }
  if (group !== undefined && !isInteger(group, 1, groups)) {
    const range = groups === 1 ? "1" : `an integer from 1 to ${groups}`;
    throw wrong(field, group, `write ${range}, as many capture groups as the expression has`);
  }
  return group ?? 1;
}

function createPartitionRule(expression: string, compiled: RE2JS, group: number): PartitionRule {
  // The partitions of a group's pods are needed for each review, and an expression takes microseconds.
  const known = new BoundedMap<string, string | undefined>(rememberedNames);
  return {
    expression,
    group,
    partitionOf(podName) {
      if (known.has(podName)) return known.get(podName);
      const matcher = compiled.matcher(podName);
      const partition = matcher.find() ? matcher.group(group) || undefined : undefined;
      known.set(podName, partition);
      return partition;
    },
  };
}

function parseSelector(spec: Fields): ReadonlyMap<string, string> {
  const advice = "write matchLabels with the labels of the pods that the budget governs";
  const selector = fieldsOf(spec.selector);
  if (selector === undefined) throw wrong("spec.selector", spec.selector, advice);
  if (selector.matchExpressions !== undefined) {
    const field = "spec.selector.matchExpressions";
    const message = `${field} is not supported, and without it the budget would govern more pods: ${advice}`;
    throw new InvalidField(field, message);
  }
  const field = "spec.selector.matchLabels";
  const labels = fieldsOf(selector.matchLabels);
  if (labels === undefined) throw wrong(field, selector.matchLabels, advice);
  const entries = Object.entries(labels);
  const excess = describeExcess(entries);
  if (excess !== undefined) throw new InvalidField(field, `${field} ${excess}`);
  const texts = entries.map(([key, value]): [string, string] => {
    if (typeof value === "string") return [key, value];
    throw wrong(`${field}.${cut(key)}`, value, "write a string, in quotes where it looks like a number");
  });
  return new Map(texts);
}

function parseDelay(spec: Fields, hasPartitions: boolean): number {
  const field = "spec.crossZoneEvictionDelay";
  const { crossZoneEvictionDelay: text = "" } = spec;
  const ms = text === "" ? 0 : typeof text === "string" ? parseGoDuration(text) : undefined;
  if (ms === undefined || ms < 0) throw wrong(field, text, "write a Go duration of at least 0, such as 90s or 5m");
  if (ms > 0 && !hasPartitions) {
    const message = `${field} holds between the zones of a partition: write spec.podNamePartitionRegex too, or leave the delay out`;
    throw new InvalidField(field, message);
  }
  return ms;
}

function isInteger(value: unknown, least: number, most: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
}

function wrong(field: string, value: unknown, advice: string): InvalidField {
  return new InvalidField(field, `${field} is ${value === undefined ? "missing" : show(value)}: ${advice}`);
}

/** The value, short enough for a message. A large value is cut before it is formatted. */
function show(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  return typeof value === "string" ? JSON.stringify(cut(value)) : String(value);
}

function cut(text: string): string {
  return text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text;
}
