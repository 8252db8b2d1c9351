import { refuseByHealth } from "./health-rule.ts";
import { createLedger, readLedger, writeLedger } from "./lease.ts";
import { findAbandoned, isSettled } from "./settling.ts";

/** The protocol's verbs as one value, so that a test can wrap one of them and see what breaks. */
export const protocol = { readLedger, createLedger, writeLedger, findAbandoned, isSettled, refuseByHealth };
export type Protocol = typeof protocol;
