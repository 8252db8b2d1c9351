/** The record of one request during its replay, as lines of plain text for the reader of a bug report. */

import type { AdmissionAnswer, AdmissionRequest } from "../../functions/shared/admission/definition.ts";
import { escapeControls } from "../../functions/shared/base/escape-control.ts";
import type { CronOutcome } from "../../functions/shared/contract/definition.ts";
import { isGroup, pathOf } from "../../functions/shared/contract/keys.ts";
import type { ReconcileReport } from "../../functions/shared/contract/reporter.ts";
import type { ObjectKey } from "../../functions/shared/kubernetes/cluster.ts";
import { createReporting, type EventResult, type Reporting } from "../telemetry/logs-and-metrics.ts";

/** One line: its subject, and the text. */
type ReportLine = readonly [label: string, text: string];
export type Block = readonly ReportLine[];

const labelWidth = 10;

/** Lines one below the other, without empty ones, and without characters that move a terminal's cursor. */
export function blockOf(lines: Block): string {
  const shown = lines.filter(([, text]) => text !== "");
  return shown.map(([label, text]) => `${label.padEnd(labelWidth)}${escapeControls(text)}`).join("\n");
}

export class ReplayReport {
  /** All lines, in their order. */
  readonly blocks: string[] = [];
  /** Failures on the way, a message each: with any, the decisions may not be complete. */
  readonly troubles: string[] = [];
  /** The result of an event. */
  event: EventResult | undefined;
  /** The StatefulSet of an event, or of an event's pod. */
  statefulSet: ObjectKey | undefined;
  /** Whether any function has decided anything. */
  isDecided = false;

  print(...lines: Block): void {
    this.blocks.push(blockOf(lines));
  }

  verdict({ key, function: name, guard, zone, message, wouldTake = [] }: ReconcileReport): void {
    this.isDecided = true;
    const would = wouldTake.map(({ action, object }) => `${action} ${object}`).join(", ");
    this.print(
      ["function", name],
      ["object", isGroup(key) ? `group ${pathOf(key)}` : pathOf(key)],
      ["zone", zone],
      ["guard", guard],
      ["sentence", message],
      ["would do", would || (guard === "done" ? "nothing" : "nothing but wait")],
    );
  }

  review(name: string, request: AdmissionRequest, answer: AdmissionAnswer): void {
    this.isDecided = true;
    const { namespace, name: object, operation, subresource, dryRun } = request;
    const text = answer.allowed ? answer.warnings.join("; ") : answer.message;
    const { otherwise } = answer.allowed ? answer : {};
    const isRefused = otherwise !== undefined && otherwise !== "reserved";
    const asked = [operation, subresource, dryRun ? "dry run" : ""].filter(Boolean).join(", ");
    this.print(
      ["function", name],
      ["object", `${namespace}/${object} (${asked})`],
      ["zone", answer.zone ?? ""],
      ["guard", answer.guard],
      ["sentence", isRefused ? otherwise.message : text],
      ["would do", actOf(answer, object)],
    );
  }

  cron(name: string, { guard, message }: CronOutcome): void {
    this.isDecided = true;
    this.print(["function", name], ["guard", guard], ["sentence", message]);
  }

  /** Nothing is logged or counted, because reports about decisions are collected here. */
  reporting(version: string): Reporting {
    const nowhere = { write() {} };
    const silent = createReporting({ version, serving: "replay", level: "error", keys: () => 0, destination: nowhere });
    return {
      ...silent,
      log: (level, message) => {
        if (level === "warn" || level === "error") this.troubles.push(message);
      },
      verdict: (report) => this.verdict(report),
      problem: (_key, _by, message) => void this.troubles.push(message),
      malformed: (_key, statefulSet, _annotation, message) =>
        this.print(["object", `StatefulSet ${statefulSet}`], ["warning", message]),
      event: (result) => {
        this.event = result;
      },
    };
  }
}

/** The answer that a review would have got. */
function actOf(answer: AdmissionAnswer, object: string): string {
  if (!answer.allowed) return `refuse it with ${answer.code} ${answer.reason}`;
  const { otherwise } = answer;
  if (otherwise === undefined) return "allow it, and reserve nothing";
  if (otherwise === "reserved") return `reserve ${object} in the ledger of its group, and allow it`;
  return `refuse it with ${otherwise.code} ${otherwise.reason}`;
}
