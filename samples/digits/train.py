"""Trains the network of samples/15_digits.sg and writes its weights and the test images; needs numpy and scikit-learn.

Half of the images train, the other half test. expected.txt keeps NumPy's accuracy on the test half."""
import pathlib
import numpy as np
from sklearn.datasets import load_digits

here = pathlib.Path(__file__).parent
data = load_digits()
rng = np.random.default_rng(7)
order = rng.permutation(len(data.target))
x = (data.data[order] / 16.0).astype(np.float32)
y = data.target[order].astype(np.int64)
half = len(y) // 2
train_x, train_y, test_x, test_y = x[:half], y[:half], x[half:], y[half:]

w1 = rng.normal(0, 0.2, (64, 32)); b1 = np.zeros(32)
w2 = rng.normal(0, 0.2, (32, 10)); b2 = np.zeros(10)
for step in range(4000):
    pick = rng.integers(0, half, 64)
    a, t = train_x[pick], train_y[pick]
    h = np.maximum(a @ w1 + b1, 0)
    z = h @ w2 + b2
    p = np.exp(z - z.max(1, keepdims=True)); p /= p.sum(1, keepdims=True)
    p[np.arange(64), t] -= 1; p /= 64
    dh = (p @ w2.T) * (h > 0)
    rate = 0.5 if step < 3000 else 0.1
    w2 -= rate * h.T @ p; b2 -= rate * p.sum(0)
    w1 -= rate * a.T @ dh; b1 -= rate * dh.sum(0)

for name, value in dict(w1=w1, b1=b1, w2=w2, b2=b2).items():
    np.save(here / f"{name}.npy", value.astype(np.float32))
np.save(here / "x.npy", test_x)
np.save(here / "y.npy", test_y)
w1, b1, w2, b2 = (np.load(here / f"{n}.npy") for n in ("w1", "b1", "w2", "b2"))
digit = (np.maximum(test_x @ w1 + b1, 0) @ w2 + b2).argmax(1)
(here / "expected.txt").write_text(f"{(digit == test_y).sum()} of {len(test_y)}\n")
print((digit == test_y).mean())
