/**
 * Decides whether a pod template relies on a preStop hook or a liveness probe. Kubernetes runs both for containers, and not for a
 * process that restarts inside its container. Pure.
 */

import type { TemplateContainer } from "../shared/kubernetes/cluster.ts";

/** The file of the runner, which starts the process of a container. */
const runner = "runner.sh";

/** What a user has to write; undefined if nothing is missing. Only containers that start the runner have a database. */
export function adviceOn(containers: readonly TemplateContainer[]): string | undefined {
  const advice = containers.filter(hasRunner).flatMap((one) => [...preStopAdvice(one), ...livenessAdvice(one)]);
  return advice.length === 0 ? undefined : advice.join("; ");
}

function hasRunner({ command = [], args = [] }: TemplateContainer): boolean {
  return [...command, ...args].some((word) => word.includes(runner));
}

function preStopAdvice({ name, lifecycle, env = [] }: TemplateContainer): readonly string[] {
  const hasOurs = env.some((variable) => variable.name === "SLUICE_PRE_STOP");
  if (lifecycle?.preStop === undefined || hasOurs) return [];
  return [
    `container ${name} has a preStop hook, which a stop in place does not run: write what it does into its variable SLUICE_PRE_STOP as well`,
  ];
}

function livenessAdvice({ name, livenessProbe }: TemplateContainer): readonly string[] {
  const isOurs = /runner\.sh\s+alive\s+--\s/.test((livenessProbe?.exec?.command ?? []).join(" "));
  if (livenessProbe === undefined || isOurs) return [];
  return [
    `container ${name} has a liveness probe, which ends it while what runs in it is stopped in place: write exec with the command ${runner} alive -- CHECK, with what it checks as CHECK`,
  ];
}
