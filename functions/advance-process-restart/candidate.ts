/** The pods that a restart may begin with. */

import type { Zone } from "../shared/groups/zones.ts";
import type { Pod } from "../shared/workloads/pods.ts";
import type { StatefulSet } from "../shared/workloads/statefulsets.ts";
import type { StatusAnswer } from "./calls.ts";
import type { FilesState } from "./decide-files.ts";
import type { Publication } from "./decide-service.ts";

/** A pod with a phase, or with the id of a restart. */
export interface Candidate {
  readonly zone: Zone<StatefulSet>;
  readonly pod: Pod;
  /** Absent: its governing Service was not read. */
  readonly publication?: Publication;
  /** The report of its process manager; undefined where it was not asked. */
  readonly answer: StatusAnswer | undefined;
  /** Absent: its StatefulSet names none, or they were not read. */
  readonly files?: FilesState | undefined;
  /** For how long its process manager has been known to have other files, in milliseconds; absent: 0. */
  readonly waitedMs?: number;
}
