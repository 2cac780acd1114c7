"""A shop that counts its orders, with Prometheus' own client library."""
import random
import time

from prometheus_client import Counter, Histogram, start_http_server

ORDERS = Counter("shop_orders", "Orders that were placed.", ["fruit"])
SECONDS = Histogram("shop_order_seconds", "How long an order took.")

start_http_server(8000)
while True:
    with SECONDS.time():
        time.sleep(random.uniform(0.01, 0.1))
    ORDERS.labels(random.choice(["apple", "pear"])).inc()
