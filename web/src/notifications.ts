// Loaded on demand: the first view shows no notification.
import "@mantine/notifications/styles.css";

export { Notifications } from "@mantine/notifications";
