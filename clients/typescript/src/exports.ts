// The exports of both platforms.
export * as v1 from "./gen/v1.js";
export { approvals, approveRequest, type Approval, type Approver, type Decision } from "./approvals.js";
export type { Answer, QuestionOptions } from "./assistant.js";
export type { Client, FillOptions } from "./client.js";
export type { BatchOptions, ChatOptions, Connection } from "./connection.js";
export { errorOfMessage, FolioError, type ErrorCode, type FieldViolation } from "./errors.js";
export type { Item, Page } from "./paging.js";
export { randomId } from "./random_id.js";
export type { StreamOptions } from "./rejoined.js";
export type { Reason } from "./reasons.js";
export type { RetryOptions } from "./retry.js";
export type { Turn } from "./turn.js";
export type { UploadOptions } from "./uploads.js";
export { InvalidSignature, verifyWebhook, type WebhookEvent, type WebhookHeaders } from "./webhooks.js";
